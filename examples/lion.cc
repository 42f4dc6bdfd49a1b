#include "lion.h"

#include "ops/math.h"
#include "ops/state.h"

using namespace belfry;

Output Lion::Apply(OpScope scope, const Variable& variable, const ops::Gradient& gradient) const {
  const Variable slot = optim::Slot(scope, variable, "Lion", /*initial=*/0);
  const Output rate = optim::LearningRate(scope.Replica(variable.replica()), learning_rate());
  const Scope update = optim::UpdateScope(scope, variable);
  const auto blend = [&](double beta, Output m) {
    const Output old = ops::Scale(update, m, beta), now = ops::Scale(update, gradient.value, 1 - beta);
    return ops::Add(update, old, now);
  };
  // A copy: both uses see the value of before the update.
  const Output m = ops::ReadVariable(update, slot);
  Output direction = ops::Sign(update, blend(options_.beta1, m));
  if (options_.weight_decay > 0) {
    const Output value = ops::ReadVariable(update, variable);
    direction = ops::Add(update, direction, ops::Scale(update, value, options_.weight_decay));
  }
  const Output remembered = ops::Assign(update, slot, blend(options_.beta2, m));
  return ops::AssignSub(update.ControlDependencies({remembered}), variable, ops::Mul(update, rate, direction));
}
