// Losses of a tower.
#pragma once

#include "framework/graph/scope.h"
#include "framework/graph/variable.h"

namespace belfry::models {

// Adds weight_decay * sum(variable^2) / 2, whose gradient is weight_decay * variable, to the collection kLosses of this
// scope, and so to TotalLoss. Does nothing if weight_decay is 0.
void AddWeightDecay(OpScope scope, const Variable& variable, double weight_decay);

// The mean over the labels of ops::SparseSoftmaxCrossEntropy, a scalar, which is added to kLosses and kMetrics. logits
// [N, ..., classes]; labels [N, ...], int32 or int64. The loss of 16-bit logits is float32. `label_smoothing`:
// as in ops::SparseCrossEntropyOptions, in [0, 1].
Output AddCrossEntropy(OpScope scope, Output logits, Output labels, double label_smoothing = 0);

// The labels of examples that are mixed in pairs, as data::PrefetcherOptions::mixup does: of the example and of its
// partner, and the weight of the first, float32, of an example.
struct MixedLabels {
  Output first, second, weight;
};
// The same with targets that are mixed as the examples are: the mean of weight l(first) + (1 - weight) l(second), where
// l is the cross-entropy. The weights have shape [N], for labels [N, ...].
Output AddCrossEntropy(OpScope scope, Output logits, const MixedLabels& labels, double label_smoothing = 0);

// States the weight of the tower's loss where it is not the number of its examples: what the loss is divided by, as a
// mean over tokens is by the tokens that count, or one with class weights by the sum of these. Then the towers' losses,
// gradients and metrics are averaged by it, and N towers compute what one would on the whole batch: sum(w_i loss_i) /
// sum(w_i). `weight` is a number, a scalar of 0 or more; a tower of weight 0 takes no part, and its loss may be NaN; a
// step in which all weights are 0 is an error, before it updates a variable, so leave batches without labels out of the
// data. `tower` is the scope that the model function is given. Every tower must call this, once. It excludes
// synchronised batch normalisation, whose gradient weighs towers by their examples.
void SetLossWeight(OpScope tower, Output weight);
// The collection that it adds to.
inline constexpr char kLossWeights[] = "loss_weights";

// The sum of the kLosses in this name scope. Called with a tower's scope, it covers that tower's loss and weight decay
// and no other's. The weight decay of a variable counts once, however many calls of layers added it. It is an error,
// which sticks to the graph, if there are none or one is not a scalar.
Output TotalLoss(OpScope scope);

}  // namespace belfry::models
