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

constexpr absl::string_view kSlot = "ExponentialMovingAverage";

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

std::string ExponentialMovingAverage::NameOf(absl::string_view name) { return absl::StrCat(name, "/", kSlot); }

Variable ExponentialMovingAverage::AverageOf(const Scope& scope, const Variable& variable) {
  return scope.graph().FindVariable(NameOf(variable.name()), variable.replica());
}

Scope ExponentialMovingAverage::Averaged(const Scope& scope) { return scope.ReadSlots(kSlot); }

}  // namespace belfry::optim
