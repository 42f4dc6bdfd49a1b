#include "optim/optimizer.h"

#include "absl/strings/str_cat.h"
#include "optim/global_step.h"
#include "optim/root_scope.h"

namespace belfry::optim {

double Decay(double weight_decay, const VariableFilter& decays, const Variable& variable) {
  return decays == nullptr || decays(variable.whole()) ? weight_decay : 0;
}

Output LearningRate(OpScope scope, const Schedule& schedule) {
  const std::string made = absl::StrCat(TrainStepName(scope, "learning_rate "), schedule.ToString());
  if (const auto items = scope.graph().collection(made); !items.empty()) return std::get<Output>(items[0].value);
  const Variable step = GlobalStep(scope);
  if (!step.valid()) return Output();
  const Scope root = scope.NoControlDependencies().NameScope("").NameScope("learning_rate").ColocateWith(step.node());
  const Output rate = schedule.Build(root, step);
  root.AddToCollection(made, rate);
  return rate;
}

Variable Slot(const Scope& scope, const Variable& variable, absl::string_view name, double initial) {
  const Variable slot =
      GetVariable(RootScope(scope, variable.replica()), absl::StrCat(variable.name(), "/", name), variable.shape(),
                  ConstantInitializer(initial), {.dtype = variable.dtype(), .trainable = false, .slot_of = variable});
  if (!slot.valid() || slot.def().slot_of == &variable.def()) return slot;
  const VariableDef* const of = slot.def().slot_of;
  const auto begin = [](const VariableDef* def) { return def == nullptr || def->part_of == nullptr ? -1 : def->begin; };
  if (begin(of) != begin(&variable.def())) {
    scope.Fail(absl::InvalidArgumentError(absl::StrCat("The slot ", slot.name(), " of replica ", variable.replica(),
                                                       " is that of another part of the variable")));
    return Variable();
  }
  return slot;
}

Variable UpdateCount(const Scope& scope, const Variable& variable, absl::string_view name) {
  return GetVariable(RootScope(scope, variable.replica()), absl::StrCat(variable.name(), "/", name), {},
                     ZerosInitializer(), {.dtype = DType::kInt64, .trainable = false, .slot_of = variable.whole()});
}

bool RefusesPart(const Scope& scope, const Variable& variable, absl::string_view needs) {
  if (variable.def().part_of == nullptr) return false;
  scope.Fail(absl::UnimplementedError(absl::StrCat(
      needs, " the whole variable ", variable.name(), " and its gradient, so its state cannot be divided among ",
      "towers; use another optimizer, or none of ReplicateOptions::shard_optimizer")));
  return true;
}

Scope UpdateScope(const Scope& scope, const Variable& variable) {
  return scope.Replica(variable.replica())
      .InPhase(Phase::kUpdate, &variable.whole().node())
      .ColocateWith(variable.node())
      .Named(absl::StrCat("update_", variable.name()));
}

}  // namespace belfry::optim
