// A gradient checker: compares symbolic gradients with finite differences. Every differentiable op passes it, and users
// should run it on their own ops.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "framework/base/tensor.h"
#include "framework/graph/scope.h"

namespace belfry {

using FeedList = std::vector<std::pair<Output, Tensor>>;

// Computes `fetches`, outputs of one graph, given values for some of its other outputs (placeholders, variables).
using Evaluator =
    std::function<absl::StatusOr<std::vector<Tensor>>(absl::Span<const Output> fetches, const FeedList& feeds)>;

struct GradientCheckOptions {
  double step = 1e-5;       // each element is moved by this, times max(1, |x|), both ways
  double tolerance = 1e-6;  // largest |symbolic - numeric|, relative to max(1, the largest gradient of that x)
  uint64_t seed = 1;        // of the random directions in the space of the ys along which gradients are compared
};

// Checks the gradients of `ys` with respect to `xs` against central differences of sum(w * y), with random weights w in
// [-1, 1), for every element of every x. The functions must be smooth around the fed values: an element within `step`
// of a kink fails. `feeds` holds a value for each x, and for everything else that the ys need. Adds nodes to the
// scope's graph.
//
// Errors: InvalidArgument for an x or y that is not float64 (finite differences are too coarse in narrower types) or an
// x without a value; FailedPrecondition that names the worst element with its symbolic and numeric gradient; any error
// of Gradients() or the evaluator.
absl::Status CheckGradients(const Scope& scope, absl::Span<const Output> ys, absl::Span<const Output> xs,
                            const FeedList& feeds, const Evaluator& evaluate, const GradientCheckOptions& options = {});

}  // namespace belfry
