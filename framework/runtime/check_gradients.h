// The gradient checker over a session of its own.
#pragma once

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "framework/graph/gradient_checker.h"

namespace belfry {

// CheckGradients (framework/graph/gradient_checker.h) on a CPU, for ys that read no variables.
//   CheckGradients(scope, {y}, {x}, {{x, Tensor::Of<double>({-2, 0.7, 3})}})
absl::Status CheckGradients(const Scope& scope, absl::Span<const Output> ys, absl::Span<const Output> xs,
                            const FeedList& feeds, const GradientCheckOptions& options = {});

}  // namespace belfry
