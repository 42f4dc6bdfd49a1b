#include "optim/descent.h"

#include "ops/training.h"

namespace belfry::optim {

GradientDescent::GradientDescent(const GradientDescentOptions& options)
    : Optimizer(options.learning_rate), options_(options) {}

Output GradientDescent::Apply(OpScope scope, const Variable& variable, const ops::Gradient& gradient) const {
  const Scope update = UpdateScope(scope, variable);
  const Output rate = LearningRate(scope.Replica(variable.replica()), learning_rate());
  return ops::ApplyGradientDescent(update, variable, rate, gradient,
                                   {.weight_decay = Decay(options_.weight_decay, options_.decays, variable)});
}

Momentum::Momentum(const MomentumOptions& options) : Optimizer(options.learning_rate), options_(options) {}

Output Momentum::Apply(OpScope scope, const Variable& variable, const ops::Gradient& gradient) const {
  const Scope update = UpdateScope(scope, variable);
  const Output rate = LearningRate(scope.Replica(variable.replica()), learning_rate());
  const Variable accumulator = Slot(scope, variable, "Momentum", 0);
  return ops::ApplyMomentum(update, variable, accumulator, rate, gradient,
                            {.momentum = options_.momentum,
                             .use_nesterov = options_.use_nesterov,
                             .weight_decay = Decay(options_.weight_decay, options_.decays, variable)});
}

}  // namespace belfry::optim
