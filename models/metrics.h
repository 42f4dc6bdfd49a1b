// Metrics of classifiers. None of them is differentiable.
#pragma once

#include <cstdint>

#include "framework/graph/scope.h"

namespace belfry::models {

// For logits [N, classes] and labels [N] (int32 or int64): float32 [N], 1 where the label's class has the largest logit
// (the first of equal ones), otherwise 0.
Output Correct(OpScope scope, Output logits, Output labels);
// The mean of Correct, a scalar: precision @ 1. NaN for an empty batch.
Output Accuracy(OpScope scope, Output logits, Output labels);
// The fraction of examples for which fewer than k classes have a larger logit than the label's class (ops::InTopK).
Output TopKAccuracy(OpScope scope, Output logits, Output labels, int64_t k);

}  // namespace belfry::models
