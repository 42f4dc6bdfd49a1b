#include "ops/activation/activation_ops.h"
#include "ops/activation/functors.h"
#include "ops/elementwise/elementwise_gpu_impl.h"

namespace belfry::ops {
namespace {

template <class T>
absl::StatusOr<Kernel> MakeGelu(const KernelSpec& spec) {
  using C = gpu::Compute<T>;
  if (spec.attrs.Bool("approximate")) return GpuMapKernel<T>(spec, functor::GeluTanh<C>());
  return GpuMapKernel<T>(spec, functor::Gelu<C>());
}
template <class T>
absl::StatusOr<Kernel> MakeGeluGrad(const KernelSpec& spec) {
  using C = gpu::Compute<T>;
  if (spec.attrs.Bool("approximate")) return GpuZipKernel<T>(spec, functor::GeluTanhGrad<C>());
  return GpuZipKernel<T>(spec, functor::GeluGrad<C>());
}

}  // namespace

void AddSmoothActivationGpuKernels(KernelTable& table) {
  table.AddKernels("Gelu", Kernels<float, double, Half, BFloat16>(
                               "GPU", [](auto tag) { return &MakeGelu<typename decltype(tag)::type>; }));
  table.AddKernels("GeluGrad", Kernels<float, double, Half, BFloat16>(
                                   "GPU", [](auto tag) { return &MakeGeluGrad<typename decltype(tag)::type>; }));
  AddFloatGpuMaps<functor::Silu>(table, "Silu");
  AddFloatGpuZips<functor::SiluGrad>(table, "SiluGrad");
  AddFloatGpuMaps<functor::Softplus>(table, "Softplus");
  AddFloatGpuZips<functor::SoftplusGrad>(table, "SoftplusGrad");
}

}  // namespace belfry::ops
