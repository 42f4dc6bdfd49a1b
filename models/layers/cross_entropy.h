// The mean cross-entropy over the examples that count.
#pragma once

#include <cstdint>
#include <optional>

#include "framework/graph/scope.h"

namespace belfry::models {

struct MeanCrossEntropyOptions {
  // Examples with this label, which need not be a class, do not count: padding. Their logits have a gradient of exactly
  // 0 and may be NaN.
  std::optional<int64_t> ignore_label = {};
  // The weight of each class, [classes] of any floating-point dtype, as a constant: no gradient flows to it. Invalid:
  // all weights are 1.
  Output class_weights = {};
  double label_smoothing = 0;  // in [0, 1], as in ops::CrossEntropyOptions; not together with class_weights
};

// A mean, and by how much it counts beside the means of other towers: sum(weight mean) / sum(weight) over the towers is
// the mean over all their examples. SetLossWeight takes the weight (losses.h).
struct MeanLoss {
  Output loss;    // scalar
  Output weight;  // float32 scalar: the sum of the weights of examples
};

// sum(w l) / sum(w), where l is ops::SparseSoftmaxCrossEntropy of an example, and w the weight of its label's class, or
// 0 for the label to be ignored: PyTorch's cross-entropy with weight, ignore_index and reduction='mean'. logits
// [N, ..., classes]; labels [N, ...], int32 or int64. The loss has the dtype of the logits, or float32 if they have 16
// bits.
//
// The gradient of an example's logits is w / sum(w) (softmax(logits) - target). If sum(w) is 0, because all examples
// are ignored, all their classes have weight 0 or there are none, the loss is NaN, the weight 0, and the gradient
// exactly 0 wherever the logits are finite or ignored, so such a tower adds nothing to a sum of gradients.
//
// A label that is neither a class nor to be ignored fails the step on a CPU; on a GPU it makes the loss and the row's
// gradient NaN. InvalidArgument, which sticks to the graph: class weights that are not floats of shape [classes], or
// that are given together with label smoothing. Adds nothing to kLosses or kLossWeights. Named sets the name of the
// loss, "cross_entropy" by default. Outputs are invalid after an error.
MeanLoss MeanCrossEntropy(OpScope scope, Output logits, Output labels, const MeanCrossEntropyOptions& options = {});

}  // namespace belfry::models
