#include "optim/lookahead.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "ops/array.h"
#include "ops/math.h"
#include "ops/state.h"

namespace belfry::optim {

Lookahead::Lookahead(SharedOptimizer inner, const LookaheadOptions& options)
    : Optimizer(inner->learning_rate()), inner_(std::move(inner)), options_(options) {}

absl::Status Lookahead::CheckOptions() const {
  if (options_.steps >= 1 && options_.alpha > 0 && options_.alpha <= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("Lookahead has steps ", options_.steps, " and alpha ", options_.alpha,
                                                 "; expected at least 1 and a number in (0, 1]"));
}

absl::Status Lookahead::Check(absl::Span<const Variable> variables) const {
  RETURN_IF_ERROR(CheckOptions());
  return inner_->Check(variables);
}

absl::string_view Lookahead::count_slot(const Variable& variable) const {
  const absl::string_view inner = inner_->count_slot(variable);
  return inner.empty() ? "Lookahead_updates" : inner;
}

Output Lookahead::Apply(OpScope scope, const Variable& variable, const ops::Gradient& gradient) const {
  if (absl::Status status = CheckOptions(); !status.ok()) {
    scope.Fail(status);
    return Output();
  }
  const Variable slow = Slot(scope, variable, "Lookahead", 0);
  const Variable count = UpdateCount(scope, variable, count_slot(variable));
  if (!slow.valid() || !count.valid()) return Output();
  const Scope update = UpdateScope(scope, variable);
  const Output updates = ops::ReadVariable(update, count), zero = ops::Const(update, int64_t{0});
  // The slow weights are at first the weights before the first update. An initial value could not be, since restored
  // weights may come after it.
  const Output before = ops::Assign(update.OnlyIf(ops::Equal(update, updates, zero)), slow, variable);
  const Output fast = inner_->Apply(scope.ControlDependencies({before}), variable, gradient);
  if (!fast.valid()) return Output();
  const Output done = ops::Add(update, updates, ops::Const(update, int64_t{1}));
  const Output due = ops::Equal(update, ops::FloorMod(update, done, ops::Const(update, options_.steps)), zero);
  const Output way = ops::Scale(update, ops::Sub(update, fast, before), options_.alpha);
  const Output moved = ops::Assign(update.OnlyIf(due), slow, ops::Add(update, before, way));
  return ops::Assign(update.OnlyIf(due), variable, moved);
}

}  // namespace belfry::optim
