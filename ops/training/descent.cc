#include "ops/training.h"
#include "ops/training/training_ops.h"
#include "ops/training/update_impl.h"

namespace belfry::ops {

Output ApplyGradientDescent(OpScope scope, const Variable& variable, Output learning_rate, const Gradient& gradient,
                            const GradientDescentAttrs& attrs) {
  return AddUpdate(scope, "ApplyGradientDescent", {variable, learning_rate}, gradient,
                   {{"weight_decay", attrs.weight_decay}});
}

Output ApplyMomentum(OpScope scope, const Variable& variable, const Variable& accumulator, Output learning_rate,
                     const Gradient& gradient, const MomentumAttrs& attrs) {
  return AddUpdate(
      scope, "ApplyMomentum", {variable, accumulator, learning_rate}, gradient,
      {{"momentum", attrs.momentum}, {"use_nesterov", attrs.use_nesterov}, {"weight_decay", attrs.weight_decay}});
}

void RegisterDescentOps(OpRegistry& registry) {
  AddUpdateOps<GradientDescentRule>(registry, "ApplyGradientDescent", {}, {});
  AddUpdateOps<MomentumRule>(registry, "ApplyMomentum", {.slots = {"accumulator"}},
                             {{"momentum", 0.9}, {"use_nesterov", false}});
}

}  // namespace belfry::ops
