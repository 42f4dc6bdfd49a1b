#include "optim/global_step.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "ops/training.h"
#include "optim/root_scope.h"

namespace belfry::optim {

Scope RootScope(const Scope& scope, int replica) {
  return Scope(scope.graph())
      .WithLocation(scope.location())
      .Replica(replica)
      .ReuseVariables(Reuse::kIfPresent)
      .Device(scope.variable_device());
}

std::string TrainStepName(const Scope& scope, absl::string_view name) {
  return scope.train_step().empty() ? std::string(name) : absl::StrCat(scope.train_step(), "/", name);
}

Variable GlobalStep(OpScope scope) {
  return GetVariable(RootScope(scope, scope.replica()), TrainStepName(scope, kGlobalStep), {}, ZerosInitializer(),
                     {.dtype = DType::kInt64, .trainable = false});
}

bool IsGlobalStep(const Variable& variable) {
  if (variable.trainable() || variable.dtype() != DType::kInt64 || variable.shape() != Shape()) return false;
  return variable.name() == kGlobalStep || absl::EndsWith(variable.name(), absl::StrCat("/", kGlobalStep));
}

Output IncrementGlobalStep(OpScope scope, absl::Span<const Output> after) {
  const Variable step = GlobalStep(scope);
  if (!step.valid()) return Output();
  return ops::Increment(scope.NameScope(kGlobalStep).ColocateWith(step.node()).ControlDependencies(after), step);
}

}  // namespace belfry::optim
