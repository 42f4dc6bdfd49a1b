// Symbolic differentiation.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/graph/scope.h"

namespace belfry {

struct GradientOptions {
  std::vector<Output> grad_ys;         // one per y, or empty: ones
  std::vector<Output> stop_gradients;  // treated as constants: nothing flows on through them, though an x may be one
};

// Adds nodes that compute d(sum of ys) / d(x) for each x, and returns them in the order of xs: an invalid Output for an
// x from which no y can be reached. Gradients of one tensor used several times are summed by AddN. Each gradient node
// is colocated with its forward node and stands below "gradients/<forward node>_grad/".
//
// Errors: an op on the way has no gradient (its OpDef neither defines one nor says not_differentiable), or every way
// from the ys to an x is cut by a not-differentiable op: the message names the op and the path from the loss. A
// gradient whose shape is not its tensor's. A y that is not floating-point.
absl::StatusOr<std::vector<Output>> Gradients(const Scope& scope, absl::Span<const Output> ys,
                                              absl::Span<const Output> xs, const GradientOptions& options = {});

}  // namespace belfry
