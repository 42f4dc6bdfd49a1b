#include "ops/gpu/families.h"
#include "ops/training/update_gpu_impl.h"

namespace belfry::ops {
namespace {

template <class C>
struct AverageAt {
  MovingAverageRule rule;
  const int64_t* step;
  BELFRY_GPU MovingAverageRule::Update<C> operator()() const { return rule.template At<C>(*step); }
};

template <class T>
absl::StatusOr<Kernel> MakeMovingAverage(const KernelSpec& spec) {
  using S = gpu::Stored<T>;
  return Kernel{[rule = MovingAverageRule(spec.attrs), n = spec.outputs[0].shape.elements(),
                 condition = Condition(spec, 3)](const KernelContext& at) {
    const UpdateData<T, 0> data{.variable = at.ref<S>(0),
                                .slot = {},
                                .gradient = at.input<S>(2),
                                .weight_decay = 0,
                                .only_if = condition.At(at)};
    return GpuUpdate(*at.stream, n, /*costly=*/true, data, AverageAt<gpu::Compute<T>>{rule, at.input<int64_t>(1)});
  }};
}

}  // namespace

void AddAverageGpuKernels(OpRegistry& registry) {
  registry.AddKernels("ApplyMovingAverage", Kernels<float, double, Half, BFloat16>("GPU", [](auto tag) {
                        return &MakeMovingAverage<typename decltype(tag)::type>;
                      }));
}

}  // namespace belfry::ops
