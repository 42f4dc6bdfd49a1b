#include <algorithm>
#include <cmath>

#include "framework/device/cuda/launch.h"
#include "framework/graph/op_def.h"
#include "ops/attention/attention_ops.h"
#include "ops/attention/rotary_impl.h"
#include "ops/gpu/divider_impl.h"

namespace belfry::ops {
namespace {

// Index i is (part of the batch, position, unit), where a unit is a pair, or an element that passes. The angle of a
// pair, which takes a power, a sine and a cosine in double, is found once for all heads of `examples` examples.
template <class T>
struct RotateUnit {
  using S = gpu::Stored<T>;
  using C = gpu::Compute<T>;
  attention::RotaryPlan plan;
  Divider units, positions;
  int64_t examples;
  const S* x;
  S* y;

  BELFRY_GPU void operator()(int64_t i) const {
    const int64_t unit = units.Split(i), position = positions.Split(i), row = plan.heads * plan.d;
    const bool pair = unit < plan.pairs;
    const int64_t first = pair ? unit * plan.step : unit + plan.pairs;
    C cosine = 1, sine = 0;
    if (pair) {
      const auto share = static_cast<double>(unit) / static_cast<double>(plan.pairs);
      // Computed in double, since float would lose the fraction of large angles.
      const double angle = static_cast<double>(position + plan.offset) * std::pow(plan.base, -share);
      cosine = static_cast<C>(std::cos(angle));
      sine = static_cast<C>(plan.inverse ? -std::sin(angle) : std::sin(angle));
    }
    const int64_t last = (i + 1) * examples < plan.batch ? (i + 1) * examples : plan.batch;
    for (int64_t example = i * examples; example < last; ++example) {
      int64_t at = (example * plan.positions + position) * row + first;
      for (int64_t head = 0; head < plan.heads; ++head, at += plan.d) {
        if (!pair) {
          y[at] = x[at];
          continue;
        }
        const S a = x[at], b = x[at + plan.next];
        const bool rotated = head < plan.rotated_heads;
        y[at] = rotated ? gpu::Narrow<T>(gpu::Widen(a) * cosine - gpu::Widen(b) * sine) : a;
        y[at + plan.next] = rotated ? gpu::Narrow<T>(gpu::Widen(b) * cosine + gpu::Widen(a) * sine) : b;
      }
    }
  }
};

template <class T>
absl::StatusOr<Kernel> MakeGpuRotary(const KernelSpec& spec) {
  using S = gpu::Stored<T>;
  constexpr int64_t kEnoughThreads = int64_t{1} << 17;
  const attention::RotaryPlan plan(spec);
  const int64_t units = plan.d - plan.pairs, one = plan.positions * units;
  if (one == 0 || plan.heads == 0 || plan.batch == 0) return NothingToDo();
  const int64_t parts = std::min(plan.batch, (kEnoughThreads + one - 1) / one);
  const int64_t examples = (plan.batch + parts - 1) / parts, n = (plan.batch + examples - 1) / examples * one;
  return Kernel{[=](const KernelContext& at) {
    return gpu::ForEach(
        *at.stream, n,
        RotateUnit<T>{plan, Divider(units, n), Divider(plan.positions, n), examples, at.input<S>(0), at.output<S>(0)});
  }};
}

}  // namespace

void AddRotaryGpuKernels(KernelTable& table) {
  table.AddKernels("Rotary", Kernels<float, double, Half, BFloat16>(
                                 "GPU", [](auto tag) { return &MakeGpuRotary<typename decltype(tag)::type>; }));
}

}  // namespace belfry::ops
