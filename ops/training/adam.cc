#include "ops/training.h"
#include "ops/training/training_ops.h"
#include "ops/training/update_impl.h"

namespace belfry::ops {
namespace {

Output AddAdam(const Scope& scope, absl::string_view op, std::vector<Output> inputs, const AdamAttrs& attrs) {
  return scope.Add(op, std::move(inputs),
                   {{"beta1", attrs.beta1},
                    {"beta2", attrs.beta2},
                    {"epsilon", attrs.epsilon},
                    {"weight_decay", attrs.weight_decay}});
}

OpDef AdamOpDef(absl::string_view name, std::vector<KernelDef> kernels) {
  return UpdateOpDef(name, {.slots = {"m", "s"}, .step = true}, {{"beta1", 0.9}, {"beta2", 0.999}, {"epsilon", 1e-8}},
                     std::move(kernels));
}

}  // namespace

Output ApplyAdam(OpScope scope, const Variable& variable, const Variable& m, const Variable& s, Output step,
                 Output learning_rate, Output gradient, const AdamAttrs& attrs) {
  return AddAdam(scope, "ApplyAdam", {variable, m, s, step, learning_rate, gradient}, attrs);
}

Output ApplyAdamW(OpScope scope, const Variable& variable, const Variable& m, const Variable& s, Output step,
                  Output learning_rate, Output gradient, const AdamAttrs& attrs) {
  return AddAdam(scope, "ApplyAdamW", {variable, m, s, step, learning_rate, gradient}, attrs);
}

void RegisterAdamOps(OpRegistry& registry) {
  registry.Add(AdamOpDef("ApplyAdam", UpdateKernels<CoupledAdamRule>()));
  registry.Add(AdamOpDef("ApplyAdamW", UpdateKernels<DecoupledAdamRule>()));
}

}  // namespace belfry::ops
