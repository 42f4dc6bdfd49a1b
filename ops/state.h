// Ops on variables, and ops that only impose an order.
#pragma once

#include <vector>

#include "absl/types/span.h"
#include "framework/graph/scope.h"

namespace belfry::ops {

// variable = value, variable += value, variable -= value. Each returns the value after the update. Shapes and dtypes
// must agree.
Output Assign(OpScope scope, const Variable& variable, Output value);
Output AssignAdd(OpScope scope, const Variable& variable, Output value);
Output AssignSub(OpScope scope, const Variable& variable, Output value);

// A copy of the variable's value, taken after this scope's control dependencies have run.
Output ReadVariable(OpScope scope, const Variable& variable);

// A node that runs after all of `outputs` and computes nothing. Run it as a target; it has no outputs to fetch.
const Node* Group(OpScope scope, absl::Span<const Output> outputs);
const Node* Group(OpScope scope, absl::Span<const Node* const> nodes);

}  // namespace belfry::ops
