#include <cmath>

#include "framework/device/cuda/launch.h"
#include "framework/graph/op_def.h"
#include "ops/attention/attention_ops.h"
#include "ops/attention/rotary_impl.h"

namespace belfry::ops {
namespace {

// Index i is (batch, position, head, place in the head). The thread of a pair's first element writes both.
template <class T>
struct RotatePair {
  using S = gpu::Stored<T>;
  using C = gpu::Compute<T>;
  attention::RotaryPlan plan;
  const S* x;
  S* y;

  BELFRY_GPU void operator()(int64_t i) const {
    const int64_t place = i % plan.d, head = i / plan.d % plan.heads,
                  position = i / plan.d / plan.heads % plan.positions;
    if (head >= plan.rotated_heads || place >= 2 * plan.pairs) {
      y[i] = x[i];
      return;
    }
    const bool first = plan.step == 2 ? place % 2 == 0 : place < plan.pairs;
    if (!first) return;
    const auto share = static_cast<double>(place / plan.step) / static_cast<double>(plan.pairs);
    // In double, since float would lose the fraction of large angles.
    const double angle = static_cast<double>(position + plan.offset) * std::pow(plan.base, -share);
    const C cosine = static_cast<C>(std::cos(angle));
    const C sine = static_cast<C>(plan.inverse ? -std::sin(angle) : std::sin(angle));
    const C a = gpu::Widen(x[i]), b = gpu::Widen(x[i + plan.next]);
    y[i] = gpu::Narrow<T>(a * cosine - b * sine);
    y[i + plan.next] = gpu::Narrow<T>(b * cosine + a * sine);
  }
};

template <class T>
absl::StatusOr<Kernel> MakeGpuRotary(const KernelSpec& spec) {
  using S = gpu::Stored<T>;
  return Kernel{[plan = attention::RotaryPlan(spec)](const KernelContext& at) {
    return gpu::ForEach(*at.stream, plan.batch * plan.positions * plan.heads * plan.d,
                        RotatePair<T>{plan, at.input<S>(0), at.output<S>(0)});
  }};
}

}  // namespace

void AddRotaryGpuKernels(KernelTable& table) {
  table.AddKernels("Rotary", Kernels<float, double, Half, BFloat16>(
                                 "GPU", [](auto tag) { return &MakeGpuRotary<typename decltype(tag)::type>; }));
}

}  // namespace belfry::ops
