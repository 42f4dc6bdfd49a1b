#include "optim/clip_weights.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "ops/math.h"
#include "ops/state.h"

namespace belfry::optim {

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
