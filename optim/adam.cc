#include "optim/adam.h"

#include "ops/training.h"

namespace belfry::optim {

Adam::Adam(const AdamOptions& options) : Optimizer(options.learning_rate), options_(options) {}

Output Adam::Apply(OpScope scope, const Variable& variable, const ops::Gradient& gradient) const {
  const Scope update = UpdateScope(scope, variable);
  const Output rate = LearningRate(scope.Replica(variable.replica()), learning_rate());
  const Variable m = Slot(scope, variable, "Adam", 0), s = Slot(scope, variable, "Adam_1", 0);
  return ops::ApplyAdam(update, variable, m, s, UpdateCount(scope, variable, count_slot(variable)), rate, gradient,
                        {.beta1 = options_.beta1,
                         .beta2 = options_.beta2,
                         .epsilon = options_.epsilon,
                         .weight_decay = Decay(options_.weight_decay, options_.decays, variable)});
}

AdamW::AdamW(const AdamWOptions& options) : Optimizer(options.learning_rate), options_(options) {}

Output AdamW::Apply(OpScope scope, const Variable& variable, const ops::Gradient& gradient) const {
  const Scope update = UpdateScope(scope, variable);
  const Output rate = LearningRate(scope.Replica(variable.replica()), learning_rate());
  const Variable m = Slot(scope, variable, "AdamW", 0), s = Slot(scope, variable, "AdamW_1", 0);
  return ops::ApplyAdamW(update, variable, m, s, UpdateCount(scope, variable, count_slot(variable)), rate, gradient,
                         {.beta1 = options_.beta1,
                          .beta2 = options_.beta2,
                          .epsilon = options_.epsilon,
                          .weight_decay = Decay(options_.weight_decay, options_.decays, variable)});
}

}  // namespace belfry::optim
