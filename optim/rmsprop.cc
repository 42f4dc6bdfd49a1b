#include "optim/rmsprop.h"

#include "absl/strings/str_cat.h"
#include "ops/training.h"

namespace belfry::optim {

RMSProp::RMSProp(const RMSPropOptions& options) : Optimizer(options.learning_rate), options_(options) {}

Output RMSProp::Apply(OpScope scope, const Variable& variable, const ops::Gradient& gradient) const {
  const Scope update = UpdateScope(scope, variable);
  const Output rate = LearningRate(scope.Replica(variable.replica()), learning_rate());
  const Variable mean_square = Slot(scope, variable, "RMSProp", 1);
  const Variable momentum = Slot(scope, variable, "RMSProp_1", 0);
  return ops::ApplyRMSProp(update, variable, mean_square, momentum, rate, gradient,
                           {.decay = options_.decay,
                            .momentum = options_.momentum,
                            .epsilon = options_.epsilon,
                            .weight_decay = Decay(options_.weight_decay, options_.decays, variable)});
}

Adagrad::Adagrad(const AdagradOptions& options) : Optimizer(options.learning_rate), options_(options) {}

Output Adagrad::Apply(OpScope scope, const Variable& variable, const ops::Gradient& gradient) const {
  if (!(options_.initial_accumulator > 0)) {
    scope.Fail(absl::InvalidArgumentError(
        absl::StrCat("Adagrad: initial_accumulator must be positive, but is ", options_.initial_accumulator)));
    return Output();
  }
  const Scope update = UpdateScope(scope, variable);
  const Output rate = LearningRate(scope.Replica(variable.replica()), learning_rate());
  const Variable accumulator = Slot(scope, variable, "Adagrad", options_.initial_accumulator);
  return ops::ApplyAdagrad(update, variable, accumulator, rate, gradient,
                           {.weight_decay = Decay(options_.weight_decay, options_.decays, variable)});
}

}  // namespace belfry::optim
