#include "optim/lookahead.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "ops/array.h"
#include "ops/math.h"
#include "ops/state.h"
#include "ops/training.h"

namespace belfry::optim {

Lookahead::Lookahead(SharedOptimizer inner, const LookaheadOptions& options)
    : WrappingOptimizer(inner->learning_rate()), inner_(std::move(inner)), options_(options) {}

absl::Status Lookahead::CheckOptions() const {
  const double first = options_.alpha.At(options_.steps);
  if (options_.steps >= 1 && first > 0 && first <= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("Lookahead has steps ", options_.steps, " and alpha ",
                                                 options_.alpha.ToString(),
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
  const Output updates = ops::ReadVariable(update, count);
  // The slow weights are at first the weights before the first update. An initial value could not be, since restored
  // weights may come after it.
  const Output first = ops::Equal(update, updates, ops::Const(update, int64_t{0}));
  const Output before = ops::Assign(update.OnlyIf(first), slow, variable);
  const Output fast = inner_->Apply(scope.ControlDependencies({before}), variable, gradient);
  if (!fast.valid()) return Output();
  return Settle(update, variable, slow, before, fast, updates);
}

Output Lookahead::Settle(const Scope& update, const Variable& variable, const Variable& slow, Output before,
                         Output fast, Output updates) const {
  const Output zero = ops::Const(update, int64_t{0}), done = ops::Add(update, updates, ops::Const(update, int64_t{1}));
  const Output due = ops::Equal(update, ops::FloorMod(update, done, ops::Const(update, options_.steps)), zero);
  const Output alpha = ops::Cast(update, options_.alpha.Build(update, done), variable.dtype());
  const Output way = ops::Mul(update, ops::Sub(update, fast, before), alpha);
  const Output moved = ops::Assign(update.OnlyIf(due), slow, ops::Add(update, before, way));
  return ops::Assign(update.OnlyIf(due), variable, moved);
}

// The slow statistics are at first those after the first update.
Output Lookahead::FollowStatistic(OpScope scope, const Variable& statistic) const {
  constexpr absl::string_view kCount = "Lookahead_updates";
  const Variable slow = Slot(scope, statistic, "Lookahead", 0);
  const Variable count = UpdateCount(scope, statistic, kCount);
  if (!slow.valid() || !count.valid()) return Output();
  const Output of_inner = inner_->FollowStatistic(scope, statistic);
  if (of_inner.valid()) scope = scope.ControlDependencies({of_inner});
  const Scope update = UpdateScope(scope, statistic);
  const Output updates = ops::ReadVariable(update, count), fast = ops::ReadVariable(update, statistic);
  const Output first = ops::Equal(update, updates, ops::Const(update, int64_t{0}));
  const Output before = ops::Assign(update.OnlyIf(first), slow, fast);
  const Output settled = Settle(update, statistic, slow, before, fast, updates);
  return ops::Increment(update.ControlDependencies({settled}), count);
}

}  // namespace belfry::optim
