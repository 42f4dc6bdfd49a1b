#include "ops/training.h"
#include "ops/training/training_ops.h"
#include "ops/training/update_impl.h"

namespace belfry::ops {
namespace {

Output AddAdam(const Scope& scope, const std::string& op, std::vector<Output> inputs, const Gradient& gradient,
               const AdamAttrs& attrs) {
  return AddUpdate(scope, op, std::move(inputs), gradient,
                   {{"beta1", attrs.beta1},
                    {"beta2", attrs.beta2},
                    {"epsilon", attrs.epsilon},
                    {"weight_decay", attrs.weight_decay}});
}

}  // namespace

Output ApplyAdam(OpScope scope, const Variable& variable, const Variable& m, const Variable& s, Output step,
                 Output learning_rate, const Gradient& gradient, const AdamAttrs& attrs) {
  return AddAdam(scope, "ApplyAdam", {variable, m, s, step, learning_rate}, gradient, attrs);
}

Output ApplyAdamW(OpScope scope, const Variable& variable, const Variable& m, const Variable& s, Output step,
                  Output learning_rate, const Gradient& gradient, const AdamAttrs& attrs) {
  return AddAdam(scope, "ApplyAdamW", {variable, m, s, step, learning_rate}, gradient, attrs);
}

void RegisterAdamOps(OpRegistry& registry) {
  const UpdateInputs inputs = {.slots = {"m", "s"}, .step = true};
  const std::vector<AttrDef> attrs = {{"beta1", 0.9}, {"beta2", 0.999}, {"epsilon", 1e-8}};
  AddUpdateOps<CoupledAdamRule>(registry, "ApplyAdam", inputs, attrs);
  AddUpdateOps<DecoupledAdamRule>(registry, "ApplyAdamW", inputs, attrs);
}

}  // namespace belfry::ops
