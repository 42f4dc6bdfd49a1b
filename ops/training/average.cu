#include "ops/training/training_ops.h"
#include "ops/training/update_gpu_impl.h"

namespace belfry::ops {
namespace {

template <class C>
struct AverageAt {
  MovingAverageRule rule;
  template <class Data>
  BELFRY_GPU MovingAverageRule::Update<C> operator()(const Data& data) const {
    return rule.template At<C>(*data.step);
  }
};

template <class T>
class AverageUpdate {
 public:
  static constexpr size_t kSlots = 0;
  static constexpr bool kCostly = true;
  explicit AverageUpdate(const KernelSpec& spec) : rule_(spec.attrs), condition_(spec, 3) {}

  UpdateData<T, kSlots> Data(const KernelContext& at) const {
    using S = gpu::Stored<T>;
    return {.variable = at.ref<S>(0),
            .slot = {},
            .gradient = at.input<S>(2),
            .weight_decay = 0,
            .only_if = condition_.At(at),
            .learning_rate = nullptr,
            .step = at.input<int64_t>(1)};
  }
  AverageAt<gpu::Compute<T>> Make() const { return {rule_}; }

 private:
  MovingAverageRule rule_;
  Condition condition_;
};

}  // namespace

void AddAverageGpuKernels(KernelTable& table) {
  table.AddKernels("ApplyMovingAverage", GpuKernelsOfUpdate<AverageUpdate>());
}

}  // namespace belfry::ops
