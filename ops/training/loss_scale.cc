#include <atomic>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "ops/common/op_rules_impl.h"
#include "ops/training.h"
#include "ops/training/training_ops.h"
#include "ops/training/update_impl.h"

namespace belfry::ops {
namespace {

template <class T>
bool Finite(const T* x, int64_t n) {
  int bad = 0;
  for (int64_t i = 0; i < n; ++i) {
    const auto value = static_cast<UpdateMath<T>>(x[i]);
    bad |= value - value != 0;
  }
  return bad == 0;
}

template <class T>
absl::StatusOr<Kernel> MakeAllFinite(const KernelSpec& spec) {
  std::vector<int64_t> sizes;
  for (const TensorSpec& input : spec.inputs) sizes.push_back(input.shape.elements());
  return Kernel{[sizes](const KernelContext& context) {
    std::atomic<bool> all = true;
    for (size_t i = 0; i < sizes.size(); ++i) {
      const T* x = context.input<T>(static_cast<int>(i));
      ParallelFor(sizes[i], 1, [x, &all](int64_t begin, int64_t end) {
        if (!Finite(x + begin, end - begin)) all.store(false, std::memory_order_relaxed);
      });
    }
    context.output<bool>(0)[0] = all.load(std::memory_order_relaxed);
    return absl::OkStatus();
  }};
}

absl::StatusOr<std::vector<Shape>> ScaleShape(const ShapeArgs& args) {
  for (const Shape& shape : args.inputs) {
    if (shape.rank() != 0) return absl::InvalidArgumentError("takes scalars, not " + shape.ToString());
  }
  const LossScaleRule rule(args.attrs);
  if (!(rule.factor >= 1 && rule.min_scale > 0 && rule.min_scale <= rule.max_scale &&
        std::isfinite(rule.factor * rule.max_scale))) {
    return absl::InvalidArgumentError(absl::StrCat("'factor' (", rule.factor, ") must be at least 1, 'min_scale' (",
                                                   rule.min_scale, ") above 0 and at most 'max_scale' (",
                                                   rule.max_scale, "), and all must be finite"));
  }
  if (rule.growth_interval < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("'growth_interval' is ", rule.growth_interval, ", but must be at least 1"));
  }
  return std::vector<Shape>{Shape()};
}

absl::StatusOr<Kernel> MakeLossScale(const KernelSpec& spec) {
  return Kernel{[rule = LossScaleRule(spec.attrs)](const KernelContext& context) {
    float& scale = *context.ref<float>(0);
    int64_t &good = *context.ref<int64_t>(1), &skipped = *context.ref<int64_t>(2);
    const LossScaleRule::State next = rule.After({scale, good, skipped}, *context.input<bool>(3));
    scale = static_cast<float>(next.scale);
    good = next.good;
    skipped = next.skipped;
    return absl::OkStatus();
  }};
}

}  // namespace

Output AllFinite(OpScope scope, absl::Span<const Output> tensors) {
  return scope.Add("AllFinite", std::vector<Output>(tensors.begin(), tensors.end()));
}

Output ApplyLossScale(OpScope scope, const Variable& scale, const Variable& good_steps, const Variable& skipped_steps,
                      Output finite, const LossScaleAttrs& attrs) {
  return scope.Add("ApplyLossScale", {scale, good_steps, skipped_steps, finite},
                   {{"factor", attrs.factor},
                    {"min_scale", attrs.min_scale},
                    {"max_scale", attrs.max_scale},
                    {"growth_interval", attrs.growth_interval}});
}

void RegisterLossScaleOps(OpRegistry& registry) {
  static constexpr DType kScaleType[] = {DType::kFloat32};
  registry.Add({.name = "AllFinite",
                .inputs = {{.name = "first"}, {.name = "rest", .list = true}},
                .outputs = {{.name = "finite", .type = "bool"}},
                .types = {{"T", kFloatTypes}},
                .shape = [](const ShapeArgs&) -> absl::StatusOr<std::vector<Shape>> { return std::vector{Shape()}; },
                .not_differentiable = true,
                .kernels = Kernels<float, double, Half, BFloat16>(
                    "CPU", [](auto tag) { return &MakeAllFinite<typename decltype(tag)::type>; })});
  registry.Add(
      {.name = "ApplyLossScale",
       .inputs = {{.name = "scale", .ref = true},
                  {.name = "good_steps", .type = "int64", .ref = true},
                  {.name = "skipped_steps", .type = "int64", .ref = true},
                  {.name = "finite", .type = "bool"}},
       .outputs = {{.name = "updated", .ref = true}},
       .types = {{"T", kScaleType}},
       .attrs = {{"factor", 2.0}, {"min_scale", 1.0}, {"max_scale", 16777216.0}, {"growth_interval", int64_t{2000}}},
       .shape = ScaleShape,
       .gradient = NoGradient(kOfUpdates),
       .stateful = true,
       .kernels = {{"CPU", DType::kFloat32, &MakeLossScale}}});
}

}  // namespace belfry::ops
