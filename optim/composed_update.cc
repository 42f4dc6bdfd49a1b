#include "optim/composed_update_impl.h"

#include "absl/strings/str_cat.h"
#include "ops/array.h"
#include "ops/math.h"
#include "ops/state.h"

namespace belfry::optim {

ComposedUpdate::ComposedUpdate(const Scope& of, const Variable& variable, const Schedule& learning_rate,
                               Output gradient)
    : scope(UpdateScope(of, variable)),
      variable(variable),
      dtype(variable.dtype() == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32),
      rate(ops::Cast(scope, LearningRate(of.Replica(variable.replica()), learning_rate), dtype)),
      value(ops::Cast(scope, variable, dtype)),
      gradient(ops::Cast(scope, gradient, dtype)) {}

Output ComposedUpdate::Blend(const Variable& slot, double keep, double take, Output with) const {
  const Output kept = ops::Scale(scope, ops::Cast(scope, slot, dtype), keep);
  const Output blended = ops::Add(scope, kept, take == 1 ? with : ops::Scale(scope, with, take));
  return ops::Cast(scope, ops::Assign(scope, slot, ops::Cast(scope, blended, slot.dtype())), dtype);
}

Output ComposedUpdate::Subtract(Output step_rate, Output by) const {
  by = ops::Mul(scope, step_rate, by);
  if (variable.dtype() == dtype) return ops::AssignSub(scope, variable, by);
  return ops::Assign(scope, variable, ops::Cast(scope, ops::Sub(scope, value, by), variable.dtype()));
}

Output ComposedUpdate::Number(double number) const { return ops::Cast(scope, ops::Const(scope, number), dtype); }

absl::Status CheckSlotDecay(absl::string_view rule, absl::string_view name, double decay) {
  if (decay >= 0 && decay < 1) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(rule, ": '", name, "' is ", decay, ", but must be in [0, 1)"));
}

}  // namespace belfry::optim
