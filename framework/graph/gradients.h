// Symbolic differentiation.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/graph/scope.h"

namespace belfry {

struct GradientOptions {
  std::vector<Output> grad_ys = {};         // one per y; empty means ones
  std::vector<Output> stop_gradients = {};  // treated as constants: no gradient flows past them, though an x may be one
                                            // of them
};

// Adds nodes that compute d(sum of ys) / d(x) for each x, and returns them in the order of xs; the Output is invalid
// for an x from which no y can be reached. Gradients of a tensor with several uses are summed by AddN. Each gradient
// node is colocated with its forward node and named "gradients/<forward node>_grad/...".
//
// Gradients of gradients work, too. Their rules are made of ops, so those of attention have all scores [N, H, T, S] in
// memory, and those of LSTM and GRU a node for each operation of a step, of which the number must be known.
//
// Errors: an op on a path has no gradient (its OpDef neither defines one nor sets not_differentiable), or an op that is
// not differentiable cuts every path from the ys to an x (the message names the op and the path from the loss); a
// gradient's shape or dtype differs from its tensor's; a y is not floating-point. They end with the line of the caller
// or of the op that they are about.
absl::StatusOr<std::vector<Output>> Gradients(OpScope scope, absl::Span<const Output> ys, absl::Span<const Output> xs,
                                              const GradientOptions& options = {});

}  // namespace belfry
