#include "optim/lars.h"

#include "absl/strings/str_cat.h"
#include "ops/training.h"

namespace belfry::optim {

Lars::Lars(const LarsOptions& options) : Optimizer(options.learning_rate), options_(options) {}

Output Lars::Apply(OpScope scope, const Variable& variable, const ops::Gradient& gradient) const {
  if (variable.def().part_of != nullptr) {
    scope.Fail(absl::UnimplementedError(absl::StrCat(
        "LARS needs the norm of the whole variable ", variable.name(), " and of its gradient, so its state cannot be ",
        "divided among towers; use another optimizer, or none of ReplicateOptions::shard_optimizer")));
    return Output();
  }
  const Scope update = UpdateScope(scope, variable);
  const Output rate = LearningRate(scope.Replica(variable.replica()), learning_rate());
  const Variable accumulator = Slot(scope, variable, "Lars", 0);
  return ops::ApplyLars(update, variable, accumulator, rate, gradient.value,
                        {.momentum = options_.momentum,
                         .trust_coefficient = options_.trust_coefficient,
                         .epsilon = options_.epsilon,
                         .weight_decay = Decay(options_.weight_decay, options_.adapts, variable),
                         .adapt = options_.adapts == nullptr || options_.adapts(variable)});
}

}  // namespace belfry::optim
