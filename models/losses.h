// What a tower minimises.
#pragma once

#include "framework/graph/scope.h"
#include "framework/graph/variable.h"

namespace belfry::models {

// Adds weight_decay * sum(variable^2) / 2 to the collection kLosses of this scope, so that TotalLoss holds it; nothing
// if weight_decay is 0. Its gradient is weight_decay * variable.
void AddWeightDecay(OpScope scope, const Variable& variable, double weight_decay);

// The mean over the batch of ops::SparseSoftmaxCrossEntropy: logits [N, classes], labels [N] int32 or int64; a scalar.
// It is added to kLosses.
Output AddCrossEntropy(OpScope scope, Output logits, Output labels);

// The sum of those kLosses that stand in this name scope: called with a tower's scope, its loss and its weight decay,
// and no other tower's. An error, which sticks to the graph: there are none, or one is not a scalar.
Output TotalLoss(OpScope scope);

}  // namespace belfry::models
