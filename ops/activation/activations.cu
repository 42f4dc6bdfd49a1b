#include "ops/activation/functors.h"
#include "ops/elementwise/elementwise_gpu_impl.h"
#include "ops/gpu/families.h"

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
void AddOfAlpha(OpRegistry& registry, const std::string& op) {
  registry.AddKernels(op, Kernels<float, double, Half, BFloat16>(
                              "GPU", [](auto tag) { return &MakeMapOfAlpha<F, typename decltype(tag)::type>; }));
  registry.AddKernels(op + "Grad", Kernels<float, double, Half, BFloat16>("GPU", [](auto tag) {
                        return &MakeZipOfAlpha<Grad, typename decltype(tag)::type>;
                      }));
}

template <class T>
struct Selu : functor::Elu<T> {
  constexpr Selu() : functor::Elu<T>(functor::kSeluAlpha, functor::kSeluScale) {}
};
template <class T>
struct SeluGrad : functor::EluGrad<T> {
  constexpr SeluGrad() : functor::EluGrad<T>(functor::kSeluAlpha, functor::kSeluScale) {}
};

}  // namespace

void AddActivationGpuKernels(OpRegistry& registry) {
  AddFloatGpuMaps<functor::Relu>(registry, "Relu");
  AddFloatGpuZips<functor::ReluGrad>(registry, "ReluGrad");
  AddFloatGpuMaps<functor::Relu6>(registry, "Relu6");
  AddFloatGpuZips<functor::Relu6Grad>(registry, "Relu6Grad");
  AddOfAlpha<functor::LeakyRelu, functor::LeakyReluGrad>(registry, "LeakyRelu");
  AddOfAlpha<functor::Elu, functor::EluGrad>(registry, "Elu");
  AddFloatGpuMaps<Selu>(registry, "Selu");
  AddFloatGpuZips<SeluGrad>(registry, "SeluGrad");
}

}  // namespace belfry::ops
