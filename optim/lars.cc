#include "optim/lars.h"

#include "ops/training.h"

namespace belfry::optim {

Lars::Lars(const LarsOptions& options) : Optimizer(options.learning_rate), options_(options) {}

Output Lars::Apply(OpScope scope, const Variable& variable, const ops::Gradient& gradient) const {
  if (RefusesPart(scope, variable, "LARS needs the norm of")) return Output();
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
