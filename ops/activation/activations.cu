#include "ops/activation/activation_ops.h"
#include "ops/activation/functors.h"
#include "ops/elementwise/elementwise_gpu_impl.h"

namespace belfry::ops {
namespace {

template <template <class> class F, class T>
absl::StatusOr<Kernel> MakeMapOfAlpha(const KernelSpec& spec) {
  return GpuMapKernel<T>(spec, F<gpu::Compute<T>>(spec.attrs.Float("alpha")));
}
template <template <class> class F, class T>
absl::StatusOr<Kernel> MakeZipOfAlpha(const KernelSpec& spec) {
  return GpuZipKernel<T>(spec, F<gpu::Compute<T>>(spec.attrs.Float("alpha")));
}
template <template <class> class F, template <class> class Grad>
void AddOfAlpha(KernelTable& table, const std::string& op) {
  table.AddKernels(op, Kernels<float, double, Half, BFloat16>(
                           "GPU", [](auto tag) { return &MakeMapOfAlpha<F, typename decltype(tag)::type>; }));
  table.AddKernels(op + "Grad", Kernels<float, double, Half, BFloat16>("GPU", [](auto tag) {
                     return &MakeZipOfAlpha<Grad, typename decltype(tag)::type>;
                   }));
}

}  // namespace

void AddActivationsGpuKernels(KernelTable& table) {
  AddFloatGpuMaps<functor::Relu>(table, "Relu");
  AddFloatGpuZips<functor::ReluGrad>(table, "ReluGrad");
  AddFloatGpuMaps<functor::Relu6>(table, "Relu6");
  AddFloatGpuZips<functor::Relu6Grad>(table, "Relu6Grad");
  AddOfAlpha<functor::LeakyRelu, functor::LeakyReluGrad>(table, "LeakyRelu");
  AddOfAlpha<functor::Elu, functor::EluGrad>(table, "Elu");
  AddFloatGpuMaps<functor::Selu>(table, "Selu");
  AddFloatGpuZips<functor::SeluGrad>(table, "SeluGrad");
}

}  // namespace belfry::ops
