#include <string>

#include "ops/normalisation/group_norm_gpu_impl.h"
#include "ops/normalisation/normalisation_ops.h"
#include "ops/normalisation/row_norm_gpu_impl.h"
#include "ops/normalisation/row_norm_grad_gpu_impl.h"

namespace belfry::ops {
namespace {

// Adds the kernels of a norm of rows, for all float dtypes, and of its gradient, "<name>Grad".
template <bool centred>
void AddNormGpuKernels(KernelTable& table, const std::string& name) {
  table.AddKernels(name, Kernels<float, double, Half, BFloat16>("GPU", [](auto tag) -> KernelFactory {
                     using T = typename decltype(tag)::type;
                     return [](const KernelSpec& spec) -> absl::StatusOr<Kernel> {
                       return NormKernel<T, centred>(spec, RowLayout(spec));
                     };
                   }));
  table.AddKernels(name + "Grad", Kernels<float, double, Half, BFloat16>("GPU", [](auto tag) -> KernelFactory {
                     using T = typename decltype(tag)::type;
                     return [](const KernelSpec& spec) -> absl::StatusOr<Kernel> {
                       return NormGradKernel<T, centred, /*adds=*/false>(spec, RowLayout(spec));
                     };
                   }));
}

// Adds the kernels of "Add<name>" and "<name>AddGrad", which add something before and after.
template <bool centred>
void AddResidualNormGpuKernels(KernelTable& table, const std::string& name) {
  table.AddKernels("Add" + name, Kernels<float, double, Half, BFloat16>("GPU", [](auto tag) -> KernelFactory {
                     return [](const KernelSpec& spec) -> absl::StatusOr<Kernel> {
                       return AddNormKernel<typename decltype(tag)::type, centred>(spec);
                     };
                   }));
  table.AddKernels(name + "AddGrad", Kernels<float, double, Half, BFloat16>("GPU", [](auto tag) -> KernelFactory {
                     return [](const KernelSpec& spec) -> absl::StatusOr<Kernel> {
                       return NormGradKernel<typename decltype(tag)::type, centred, /*adds=*/true>(spec,
                                                                                                   RowLayout(spec));
                     };
                   }));
}

}  // namespace

void AddRowNormGpuKernels(KernelTable& table) {
  AddNormGpuKernels</*centred=*/true>(table, "LayerNorm");
  AddNormGpuKernels</*centred=*/false>(table, "RmsNorm");
  AddResidualNormGpuKernels</*centred=*/true>(table, "LayerNorm");
  AddResidualNormGpuKernels</*centred=*/false>(table, "RmsNorm");
  table.AddKernels("GroupNorm", Kernels<float, double, Half, BFloat16>(
                                    "GPU", [](auto tag) { return &GroupNormKernel<typename decltype(tag)::type>; }));
  table.AddKernels("GroupNormGrad", Kernels<float, double, Half, BFloat16>("GPU", [](auto tag) {
                     return &GroupNormGradKernel<typename decltype(tag)::type>;
                   }));
}

}  // namespace belfry::ops
