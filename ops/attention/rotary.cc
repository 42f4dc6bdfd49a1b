#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "ops/attention.h"
#include "ops/attention/attention_ops.h"
#include "ops/attention/rotary_impl.h"
#include "ops/common/op_rules_impl.h"

namespace belfry::ops {
namespace {

// Cosines and sines [positions, 2, pairs].
template <class C>
std::vector<C> Angles(const attention::RotaryPlan& plan) {
  std::vector<C> angles(static_cast<size_t>(plan.positions * 2 * plan.pairs));
  for (int64_t i = 0; i < plan.pairs; ++i) {
    const double rate = std::pow(plan.base, -static_cast<double>(i) / static_cast<double>(plan.pairs));
    for (int64_t t = 0; t < plan.positions; ++t) {
      const double angle = static_cast<double>(t + plan.offset) * rate;
      C* const at = angles.data() + 2 * t * plan.pairs + i;
      at[0] = static_cast<C>(std::cos(angle));
      at[plan.pairs] = static_cast<C>(plan.inverse ? -std::sin(angle) : std::sin(angle));
    }
  }
  return angles;
}

template <class T, bool interleaved>
void RotateHead(const T* x, const Compute<T>* angle, int64_t pairs, T* y) {
  using C = Compute<T>;
  constexpr int64_t kStep = interleaved ? 2 : 1;
  const int64_t next = interleaved ? 1 : pairs;
#pragma omp simd
  for (int64_t i = 0; i < pairs; ++i) {
    const C a = static_cast<C>(x[i * kStep]), b = static_cast<C>(x[i * kStep + next]);
    y[i * kStep] = static_cast<T>(a * angle[i] - b * angle[pairs + i]);
    y[i * kStep + next] = static_cast<T>(b * angle[i] + a * angle[pairs + i]);
  }
}

template <class T>
absl::StatusOr<Kernel> MakeRotary(const KernelSpec& spec) {
  using C = Compute<T>;
  constexpr int64_t kLongestTable = int64_t{1} << 28;  // of angles
  const attention::RotaryPlan plan(spec);
  if (plan.positions > kLongestTable / std::max<int64_t>(2 * plan.pairs, 1)) {
    return absl::UnimplementedError(absl::StrCat("Rotary has ", plan.positions, " positions of ", plan.pairs,
                                                 " pairs; at most ", kLongestTable,
                                                 " numbers of angles are supported"));
  }
  const auto angles = std::make_shared<const std::vector<C>>(Angles<C>(plan));
  const int64_t row = plan.heads * plan.d;
  return Kernel{[=](const KernelContext& context) {
    const T* const x = context.input<T>(0);
    T* const y = context.output<T>(0);
    ParallelFor(plan.batch * plan.positions, static_cast<double>(row), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const C* const angle = angles->data() + i % plan.positions * 2 * plan.pairs;
        if (x != y) std::copy_n(x + i * row, row, y + i * row);
        for (int64_t head = 0; head < plan.rotated_heads; ++head) {
          const int64_t at = i * row + head * plan.d;
          if (plan.step == 2) {
            RotateHead<T, true>(x + at, angle, plan.pairs, y + at);
          } else {
            RotateHead<T, false>(x + at, angle, plan.pairs, y + at);
          }
        }
      }
    });
    return absl::OkStatus();
  }};
}

absl::StatusOr<std::vector<Shape>> RotaryShape(const ShapeArgs& args) {
  const Shape& x = args.inputs[0];
  if (x.rank() != 4)
    return absl::InvalidArgumentError(absl::StrCat("needs x [N, T, H, D], but was given ", x.ToString()));
  const int64_t width = args.attrs.Int("width"), heads = args.attrs.Int("heads"), offset = args.attrs.Int("offset");
  const int64_t rotated = width == 0 ? x[3] : width;
  if (rotated != Shape::kUnknown && (rotated < 0 || rotated % 2 != 0)) {
    return absl::InvalidArgumentError(absl::StrCat("pairs of elements are rotated, but the width is ", rotated));
  }
  if ((x[3] != Shape::kUnknown && width > x[3]) || heads < 0 || (x[2] != Shape::kUnknown && heads > x[2])) {
    return absl::InvalidArgumentError(
        absl::StrCat(heads, " heads of which ", width, " elements are rotated do not fit in x ", x.ToString()));
  }
  const double base = args.attrs.Float("base");
  if (!(base > 0) || std::isinf(base)) {
    return absl::InvalidArgumentError(absl::StrCat("base must be positive and finite, but is ", base));
  }
  constexpr int64_t kFarthest = int64_t{1} << 40;
  if (std::abs(offset) > kFarthest) return absl::InvalidArgumentError(absl::StrCat("offset is ", offset));
  return std::vector<Shape>{x};
}

std::vector<Output> RotaryGradient(const Scope& scope, const Node& node, absl::Span<const Output> dy) {
  Attrs attrs;
  for (const auto& [name, value] : node.attrs().values()) {
    if (name != "T" && name != "inverse") attrs.Set(name, value);
  }
  attrs.Set("inverse", !node.attrs().Bool("inverse"));
  return {scope.Add("Rotary", {dy[0]}, std::move(attrs))};
}

}  // namespace

Output Rotary(OpScope scope, Output x, const RotaryOptions& options) {
  return scope.Add("Rotary", {x},
                   {{"base", options.base},
                    {"width", options.width},
                    {"heads", options.heads},
                    {"offset", options.offset},
                    {"interleaved", options.interleaved}});
}

void RegisterRotary(OpRegistry& registry) {
  registry.Add({.name = "Rotary",
                .inputs = {{"x"}},
                .outputs = {{"y"}},
                .types = {{"T", kFloatTypes}},
                .attrs = {{"base", 10'000.0},
                          {"width", int64_t{0}},
                          {"heads", int64_t{0}},
                          {"offset", int64_t{0}},
                          {"interleaved", false},
                          {"inverse", false}},  // by the negative angles
                .shape = RotaryShape,
                .gradient = RotaryGradient,
                .in_place = {{0, 0}},
                .kernels = Kernels<float, double, Half, BFloat16>(
                    "CPU", [](auto tag) { return &MakeRotary<typename decltype(tag)::type>; })});
}

}  // namespace belfry::ops
