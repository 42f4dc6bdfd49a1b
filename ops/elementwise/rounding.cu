#include "ops/elementwise/elementwise_gpu_impl.h"
#include "ops/elementwise/step_functors.h"
#include "ops/gpu/families.h"

namespace belfry::ops {
namespace {

// GPU kernels cannot fail, so an integer divided by 0 gives 0.
template <template <class> class F>
struct Divide {
  template <class T>
  struct By {
    constexpr T operator()(T a, T b) const {
      if constexpr (std::is_integral_v<T>) {
        if (b == 0) return 0;
      }
      return F<T>()(a, b);
    }
  };
};

template <template <class> class F, class T>
absl::StatusOr<Kernel> MakeClip(const KernelSpec& spec) {
  using C = gpu::Compute<T>;
  const F<C> clip{static_cast<C>(spec.attrs.Float("low")), static_cast<C>(spec.attrs.Float("high"))};
  if constexpr (std::is_same_v<F<C>, functor::Clip<C>>) {
    return GpuMapKernel<T>(spec, clip);
  } else {
    return GpuZipKernel<T>(spec, clip);
  }
}

template <template <class> class F>
void AddClip(OpRegistry& registry, absl::string_view op) {
  registry.AddKernels(op, Kernels<float, double, Half, BFloat16>(
                              "GPU", [](auto tag) { return &MakeClip<F, typename decltype(tag)::type>; }));
}

}  // namespace

void AddRoundingGpuKernels(OpRegistry& registry) {
  AddClip<functor::Clip>(registry, "ClipByValue");
  AddClip<functor::ClipGrad>(registry, "ClipByValueGrad");
  AddNumericGpuMaps<functor::Abs>(registry, "Abs");
  AddNumericGpuMaps<functor::Sign>(registry, "Sign");
  AddFloatGpuMaps<functor::Floor>(registry, "Floor");
  AddFloatGpuMaps<functor::Ceil>(registry, "Ceil");
  AddFloatGpuMaps<functor::Round>(registry, "Round");
  AddNumericGpuZips<functor::Maximum>(registry, "Maximum");
  AddNumericGpuZips<functor::Minimum>(registry, "Minimum");
  AddNumericGpuZips<Divide<functor::FloorDiv>::By>(registry, "FloorDiv");
  AddNumericGpuZips<Divide<functor::FloorMod>::By>(registry, "FloorMod");
}

}  // namespace belfry::ops
