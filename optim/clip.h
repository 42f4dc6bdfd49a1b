// Gradient clipping (Pascanu, Mikolov and Bengio, "On the difficulty of training recurrent neural networks", 2013).
// Invalid gradients, which do not flow, are passed through.
#pragma once

#include <vector>

#include "absl/types/span.h"
#include "framework/graph/scope.h"

namespace belfry::optim {

// Clamps each element to [-limit, limit]; NaN stays NaN.
std::vector<Output> ClipByValue(OpScope scope, absl::Span<const Output> gradients, double limit);

// Scales each tensor whose Euclidean norm exceeds `clip_norm` > 0 down to it. A tensor with an element that is not
// finite becomes all NaN, and so does a float64 tensor whose norm exceeds the largest float64.
std::vector<Output> ClipByNorm(OpScope scope, absl::Span<const Output> gradients, double clip_norm);

struct ClippedByGlobalNorm {
  std::vector<Output> gradients;
  Output norm;  // of all gradients together before clipping, a float32 scalar (infinite if it exceeds the largest);
                // invalid if no gradient flows
};
// Scales all tensors, which have one dtype, by the same factor so that their joint norm is at most `clip_norm` > 0. If
// an element is not finite, all become NaN, so that the failure is visible; finite float32 gradients stay finite.
ClippedByGlobalNorm ClipByGlobalNorm(OpScope scope, absl::Span<const Output> gradients, double clip_norm);

}  // namespace belfry::optim
