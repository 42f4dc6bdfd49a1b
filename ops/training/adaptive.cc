#include "ops/training.h"
#include "ops/training/training_ops.h"
#include "ops/training/update_impl.h"

namespace belfry::ops {

Output ApplyRMSProp(OpScope scope, const Variable& variable, const Variable& mean_square, const Variable& momentum,
                    Output learning_rate, const Gradient& gradient, const RMSPropAttrs& attrs) {
  return AddUpdate(scope, "ApplyRMSProp", {variable, mean_square, momentum, learning_rate}, gradient,
                   {{"decay", attrs.decay},
                    {"momentum", attrs.momentum},
                    {"epsilon", attrs.epsilon},
                    {"weight_decay", attrs.weight_decay}});
}

Output ApplyAdagrad(OpScope scope, const Variable& variable, const Variable& accumulator, Output learning_rate,
                    const Gradient& gradient, const AdagradAttrs& attrs) {
  return AddUpdate(scope, "ApplyAdagrad", {variable, accumulator, learning_rate}, gradient,
                   {{"weight_decay", attrs.weight_decay}});
}

void RegisterAdaptiveOps(OpRegistry& registry) {
  AddUpdateOps<RMSPropRule>(registry, "ApplyRMSProp", {.slots = {"mean_square", "momentum"}},
                            {{"decay", 0.9}, {"momentum", 0.0}, {"epsilon", 1e-10}});
  AddUpdateOps<AdagradRule>(registry, "ApplyAdagrad", {.slots = {"accumulator"}}, {});
}

}  // namespace belfry::ops
