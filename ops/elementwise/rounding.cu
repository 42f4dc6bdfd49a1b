#include "ops/elementwise/elementwise_gpu_impl.h"
#include "ops/elementwise/elementwise_ops.h"
#include "ops/elementwise/step_functors.h"

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
void AddClip(KernelTable& table, absl::string_view op) {
  table.AddKernels(op, Kernels<float, double, Half, BFloat16>(
                           "GPU", [](auto tag) { return &MakeClip<F, typename decltype(tag)::type>; }));
}

}  // namespace

void AddRoundingGpuKernels(KernelTable& table) {
  AddClip<functor::Clip>(table, "ClipByValue");
  AddClip<functor::ClipGrad>(table, "ClipByValueGrad");
  AddNumericGpuMaps<functor::Abs>(table, "Abs");
  AddNumericGpuMaps<functor::Sign>(table, "Sign");
  AddFloatGpuMaps<functor::Floor>(table, "Floor");
  AddFloatGpuMaps<functor::Ceil>(table, "Ceil");
  AddFloatGpuMaps<functor::Round>(table, "Round");
  AddNumericGpuZips<functor::Maximum>(table, "Maximum");
  AddNumericGpuZips<functor::Minimum>(table, "Minimum");
  AddNumericGpuZips<Divide<functor::FloorDiv>::By>(table, "FloorDiv");
  AddNumericGpuZips<Divide<functor::FloorMod>::By>(table, "FloorMod");
}

}  // namespace belfry::ops
