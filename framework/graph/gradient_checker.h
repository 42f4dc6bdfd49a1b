// Symbolic gradients against finite differences: the test that every differentiable op passes, and that a user's own
// should.
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

// Computes `fetches` of one graph, given values for some of its outputs (placeholders, variables).
using Evaluator =
    std::function<absl::StatusOr<std::vector<Tensor>>(absl::Span<const Output> fetches, const FeedList& feeds)>;

struct GradientCheckOptions {
  double step = 1e-5;       // elements are moved by this much either way, times max(1, |x|)
  double tolerance = 1e-6;  // of |symbolic - numeric|, relative to max(1, the largest gradient of that x)
  int projections = 2;      // random directions in the space of the ys whose gradients are compared
  uint64_t seed = 1;        // of these directions
};

// Checks the gradients of `ys` with respect to `xs`, by central differences of sum(w * y) for random weights w in [-1,
// 1) and every element of every x. The functions must be smooth around the values fed: an element within `step` of a
// kink fails. `feeds` holds a value for each x, and for everything else that the ys need. Adds nodes to the scope's
// graph.
//
// Errors: InvalidArgument for an x or y that is not float64 (finite differences say little in less) or an x without a
// value; FailedPrecondition that names the worst element, its symbolic and its numeric gradient; what Gradients() or
// the evaluator reports.
absl::Status CheckGradients(const Scope& scope, absl::Span<const Output> ys, absl::Span<const Output> xs,
                            const FeedList& feeds, const Evaluator& evaluate, const GradientCheckOptions& options = {});

}  // namespace belfry
