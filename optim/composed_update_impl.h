// Update rules that are composed of ops. Internal to optim/.
#pragma once

#include "optim/optimizer.h"

namespace belfry::optim {

// The parts of an update, in the type in which it is computed: float64 for variables of that, otherwise float32.
struct ComposedUpdate {
  ComposedUpdate(const Scope& of, const Variable& variable, const Schedule& learning_rate, Output gradient);

  // The slot after slot = keep slot + take with.
  Output Blend(const Variable& slot, double keep, double take, Output with) const;
  // The variable after v -= step_rate by.
  Output Subtract(Output step_rate, Output by) const;
  // A number.
  Output Number(double number) const;

  Scope scope;  // UpdateScope
  Variable variable;
  DType dtype;
  Output rate, value, gradient;  // a scalar, and the variable and its gradient
};

// InvalidArgument unless the decay of a slot is in [0, 1): "Muon: 'momentum' is 2, but must be in [0, 1)".
absl::Status CheckSlotDecay(absl::string_view rule, absl::string_view name, double decay);

}  // namespace belfry::optim
