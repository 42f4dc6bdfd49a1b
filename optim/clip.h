// Keeping gradients from growing too large (Pascanu, Mikolov and Bengio, "On the difficulty of training recurrent
// neural networks", 2013). An invalid gradient, one that does not flow, stays what it is.
#pragma once

#include <vector>

#include "absl/types/span.h"
#include "framework/graph/scope.h"

namespace belfry::optim {

// Each element moved into [-limit, limit]; NaN stays NaN.
std::vector<Output> ClipByValue(OpScope scope, absl::Span<const Output> gradients, double limit);

// Each tensor scaled down to Euclidean norm `clip_norm` > 0 if its own is larger; all NaN if it is not finite.
std::vector<Output> ClipByNorm(OpScope scope, absl::Span<const Output> gradients, double clip_norm);

struct ClippedByGlobalNorm {
  std::vector<Output> gradients;
  Output norm;  // of all of them before clipping: a float32 scalar
};
// All tensors, of one dtype, scaled down alike so that their common norm is at most `clip_norm` > 0; all NaN if it is
// not finite, so that the step shows what happened.
ClippedByGlobalNorm ClipByGlobalNorm(OpScope scope, absl::Span<const Output> gradients, double clip_norm);

}  // namespace belfry::optim
