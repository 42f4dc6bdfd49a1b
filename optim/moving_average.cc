#include "optim/moving_average.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "ops/state.h"
#include "ops/training.h"
#include "optim/global_step.h"
#include "optim/optimizer.h"
#include "optim/root_scope.h"

namespace belfry::optim {
namespace {

Variable MakeAverage(const Scope& scope, const Variable& variable) {
  const auto initial = [&](const Scope&, absl::string_view, DType, const Shape&) {
    return variable.def().initial_value;
  };
  return GetVariable(RootScope(scope, variable.replica()), ExponentialMovingAverage::NameOf(variable.name()),
                     variable.shape(), initial, {.dtype = variable.dtype(), .trainable = false, .slot_of = variable});
}

}  // namespace

const Node* ExponentialMovingAverage::Update(OpScope scope, absl::Span<const Variable> variables,
                                             absl::Span<const Output> after) const {
  const Scope inner = scope.NameScope("ExponentialMovingAverage");
  std::vector<Output> updates;
  for (const Variable& variable : variables) {
    const Variable average = MakeAverage(scope, variable);
    if (!average.valid()) return nullptr;
    const Scope update = UpdateScope(inner, variable).ControlDependencies(after);
    updates.push_back(ops::ApplyMovingAverage(update, average, GlobalStep(scope.Replica(variable.replica())), variable,
                                              {.decay = options_.decay, .use_step = options_.use_step}));
    if (!updates.back().valid()) return nullptr;
  }
  return ops::Group(inner, updates);
}

std::string ExponentialMovingAverage::NameOf(absl::string_view name) {
  return absl::StrCat(name, "/ExponentialMovingAverage");
}

Variable ExponentialMovingAverage::AverageOf(const Scope& scope, const Variable& variable) {
  return scope.graph().FindVariable(NameOf(variable.name()), variable.replica());
}

const Node* ExponentialMovingAverage::AssignTo(OpScope scope, int from) {
  if (!scope.status().ok()) return nullptr;
  if (from == scope.replica()) {
    scope.Fail(absl::InvalidArgumentError(
        absl::StrCat("Averages must not replace the variables they are computed from: replica ", from, " is both")));
    return nullptr;
  }
  const Scope inner = scope.NameScope("assign_averages");
  std::vector<Output> assigned;
  for (const Variable& variable : scope.graph().variables()) {
    if (variable.replica() != scope.replica() || variable.def().slot_of != nullptr) continue;
    if (IsGlobalStep(variable)) continue;
    const Variable source = scope.graph().FindVariable(variable.name(), from);
    if (!source.valid()) {
      scope.Fail(absl::NotFoundError(absl::StrCat("Variable ", variable.name(), " of replica ", scope.replica(),
                                                  " has no counterpart in replica ", from)));
      return nullptr;
    }
    const Variable average = AverageOf(scope, source);
    assigned.push_back(ops::Assign(inner.ColocateWith(variable.node()), variable, average.valid() ? average : source));
  }
  return ops::Group(inner, assigned);
}

}  // namespace belfry::optim
