#include "optim/global_step.h"

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

Variable GlobalStep(OpScope scope) {
  return GetVariable(RootScope(scope, scope.replica()), kGlobalStep, {}, ZerosInitializer(),
                     {.dtype = DType::kInt64, .trainable = false});
}

Output IncrementGlobalStep(OpScope scope, absl::Span<const Output> after) {
  const Variable step = GlobalStep(scope);
  if (!step.valid()) return Output();
  return ops::Increment(scope.NameScope(kGlobalStep).ColocateWith(step.node()).ControlDependencies(after), step);
}

}  // namespace belfry::optim
