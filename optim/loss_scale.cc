#include "optim/loss_scale.h"

#include <cmath>
#include <map>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "ops/array.h"
#include "ops/math.h"
#include "ops/training.h"
#include "optim/root_scope.h"

namespace belfry::optim {
namespace {

constexpr char kName[] = "loss_scale";

absl::Status Check(const LossScaleOptions& options) {
  const double min_scale = options.dynamic ? options.min_scale : options.initial;
  const double max_scale = options.dynamic ? options.max_scale : options.initial;
  // Twice the largest scale must be finite in float32, and so must 1 over the smallest.
  if (min_scale >= 0x1p-126 && min_scale <= options.initial && options.initial <= max_scale && max_scale <= 0x1p126 &&
      (!options.dynamic || options.growth_interval >= 1)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "A loss scale of ", options.initial, " between ", min_scale, " and ", max_scale, ", doubled every ",
      options.growth_interval,
      " steps; expected 2^-126 <= min_scale <= initial <= max_scale <= 2^126, and an interval of at least 1"));
}

Variable Part(const Scope& scope, absl::string_view name, double initial, DType dtype) {
  return GetVariable(RootScope(scope, scope.replica()), absl::StrCat(scope.variable_path(), TrainStepName(scope, name)),
                     {}, ConstantInitializer(initial), {.dtype = dtype, .trainable = false});
}

bool IsNarrow(DType dtype) { return dtype == DType::kFloat16 || dtype == DType::kBFloat16; }

}  // namespace

absl::StatusOr<std::optional<LossScaleOptions>> ParseLossScale(absl::string_view text) {
  if (text == "none") return std::nullopt;
  LossScaleOptions options;
  if (text == "dynamic") return options;
  options.dynamic = false;
  if (!absl::SimpleAtod(text, &options.initial)) {
    return absl::InvalidArgumentError(
        absl::StrCat("Unknown loss scale '", text, "'; expected none, dynamic or a number"));
  }
  if (absl::Status status = Check(options); !status.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("A loss scale of ", text, " is out of range; expected a number above 0 and at most 2^126"));
  }
  return options;
}

Variable LossScale::Value(OpScope scope) const {
  if (absl::Status status = Check(options_); !status.ok()) {
    scope.Fail(status);
    return Variable();
  }
  return Part(scope, kName, options_.initial, DType::kFloat32);
}

Variable LossScale::SkippedSteps(OpScope scope) const {
  return Part(scope, absl::StrCat(kName, "/skipped_steps"), 0, DType::kInt64);
}

Output LossScale::Scale(OpScope scope, Output loss) const {
  const Variable scale = Value(scope);
  if (!scale.valid() || !loss.valid()) return Output();
  const Scope inner = scope.NameScope(kName);
  if (IsNarrow(loss.dtype())) loss = ops::Cast(inner, loss, DType::kFloat32);
  return ops::Mul(inner, loss, ops::Cast(inner, scale, loss.dtype()));
}

LossScale::Unscaled LossScale::Unscale(OpScope scope, absl::Span<const GradientAndVariable> gradients) const {
  const Variable scale = Value(scope);
  if (!scale.valid()) return {};
  const Scope inner = scope.NameScope("unscale");
  const Scope beside = inner.ColocateWith(scale.node());
  std::map<DType, std::vector<Output>> flowing;
  for (const GradientAndVariable& pair : gradients) {
    if (pair.gradient.valid()) flowing[pair.gradient.dtype()].push_back(pair.gradient);
  }
  Unscaled unscaled{{gradients.begin(), gradients.end()}, {}};
  for (const auto& [dtype, values] : flowing) {
    const Output finite = ops::AllFinite(inner, values);
    unscaled.finite = unscaled.finite.valid() ? ops::LogicalAnd(inner, unscaled.finite, finite) : finite;
  }
  const Output factor = ops::Div(beside, ops::Const(beside, 1.0f), scale);
  for (auto& [gradient, variable, indices] : unscaled.gradients) {
    if (!gradient.valid()) continue;
    const Scope at = inner.ColocateWith(*gradient.node);
    const DType dtype = gradient.dtype(), wide = IsNarrow(dtype) ? DType::kFloat32 : dtype;
    const Output wide_gradient = ops::Cast(at, gradient, wide), wide_factor = ops::Cast(at, factor, wide);
    gradient = ops::Cast(at, ops::Mul(at, wide_gradient, wide_factor), dtype);
  }
  return unscaled;
}

Output LossScale::Update(OpScope scope, Output finite) const {
  const Variable scale = Value(scope);
  if (!scale.valid() || !finite.valid()) return Output();
  const Variable good = Part(scope, absl::StrCat(kName, "/good_steps"), 0, DType::kInt64);
  const Scope beside = scope.NameScope(kName).ColocateWith(scale.node());
  if (!options_.dynamic) {
    return ops::ApplyLossScale(beside, scale, good, SkippedSteps(scope), finite,
                               {.factor = 1, .min_scale = options_.initial, .max_scale = options_.initial});
  }
  return ops::ApplyLossScale(
      beside, scale, good, SkippedSteps(scope), finite,
      {.min_scale = options_.min_scale, .max_scale = options_.max_scale, .growth_interval = options_.growth_interval});
}

}  // namespace belfry::optim
