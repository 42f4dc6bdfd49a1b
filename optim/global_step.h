// The global step: a count of training steps.
#pragma once

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/graph/scope.h"

namespace belfry::optim {

inline constexpr absl::string_view kGlobalStep = "global_step";

// The variable "global_step" of the scope's replica, or "<name>/global_step" in a training step with a name
// (Scope::InTrainStep): an int64 scalar that starts at 0 and is not trainable. Created on first use, whatever the
// scope's variable path and reuse, on the scope's device for variables.
Variable GlobalStep(OpScope scope);
// True for the global step of any training step.
bool IsGlobalStep(const Variable& variable);

// Adds 1 to the global step after all of `after`, this step's updates, have run; they all see the former value. Returns
// the new value.
Output IncrementGlobalStep(OpScope scope, absl::Span<const Output> after);

}  // namespace belfry::optim
