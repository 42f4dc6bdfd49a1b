#include "optim/clip.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "ops/array.h"
#include "ops/math.h"
#include "ops/state.h"
#include "ops/training.h"

namespace belfry::optim {
namespace {

// A scope that places nodes on the gradient's device.
Scope Beside(const Scope& scope, Output gradient) { return scope.ColocateWith(*gradient.node); }

}  // namespace

std::vector<Output> ClipByValue(OpScope scope, absl::Span<const Output> gradients, double limit) {
  const Scope inner = scope.NameScope("clip_by_value");
  std::vector<Output> clipped(gradients.begin(), gradients.end());
  for (Output& gradient : clipped) {
    if (gradient.valid()) gradient = ops::ClipByValue(Beside(inner, gradient), gradient, -limit, limit);
  }
  return clipped;
}

std::vector<Output> ClipByNorm(OpScope scope, absl::Span<const Output> gradients, double clip_norm) {
  const Scope inner = scope.NameScope("clip_by_norm");
  std::vector<Output> clipped(gradients.begin(), gradients.end());
  for (Output& gradient : clipped) {
    if (!gradient.valid()) continue;
    const Scope beside = Beside(inner, gradient);
    gradient = ops::ClipToNorm(beside, gradient, ops::GlobalNorm(beside, {gradient}, DType::kFloat64), clip_norm);
  }
  return clipped;
}

ClippedByGlobalNorm ClipByGlobalNorm(OpScope scope, absl::Span<const Output> gradients, double clip_norm) {
  const Scope inner = scope.NameScope("clip_by_global_norm");
  std::vector<Output> flowing;
  for (const Output& gradient : gradients) {
    if (gradient.valid()) flowing.push_back(gradient);
  }
  ClippedByGlobalNorm clipped{{gradients.begin(), gradients.end()}, {}};
  if (flowing.empty()) return clipped;
  // In float64, since the norm of finite float32 gradients may exceed the largest float32.
  const Output norm = ops::GlobalNorm(inner, flowing, DType::kFloat64);
  clipped.norm = ops::Cast(inner, norm, DType::kFloat32);
  for (Output& gradient : clipped.gradients) {
    if (gradient.valid()) gradient = ops::ClipToNorm(Beside(inner, gradient), gradient, norm, clip_norm);
  }
  return clipped;
}

ClipWeights::ClipWeights(SharedOptimizer inner, double low, double high, VariableFilter filter)
    : WrappingOptimizer(inner->learning_rate()),
      inner_(std::move(inner)),
      low_(low),
      high_(high),
      filter_(std::move(filter)) {}

absl::Status ClipWeights::Check(absl::Span<const Variable> variables) const {
  if (!(low_ <= high_)) {
    return absl::InvalidArgumentError(
        absl::StrCat("ClipWeights has the bounds ", low_, " and ", high_, "; expected the lower one first"));
  }
  RETURN_IF_ERROR(CheckSelects(filter_, variables, "ClipWeights"));
  return inner_->Check(variables);
}

Output ClipWeights::Apply(OpScope scope, const Variable& variable, const ops::Gradient& gradient) const {
  const Output updated = inner_->Apply(scope, variable, gradient);
  if (!updated.valid() || (filter_ != nullptr && !filter_(variable.whole()))) return updated;
  const Scope update = UpdateScope(scope, variable);
  return ops::Assign(update, variable, ops::ClipByValue(update, updated, low_, high_));
}

}  // namespace belfry::optim
