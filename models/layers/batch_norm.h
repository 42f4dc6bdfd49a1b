// A batch normalisation layer (Ioffe and Szegedy, 2015).
#pragma once

#include "absl/strings/string_view.h"
#include "framework/graph/scope.h"

namespace belfry::models {

struct BatchNormOptions {
  bool training = true;  // normalise with the batch's statistics and update the moving averages; if false, normalise
                         // with the moving averages
  double momentum =
      0.99;  // from 0 to 1: average = momentum * average + (1 - momentum) * batch; with 1 there is no update
  double epsilon = 1e-3;
  double gamma = 1;   // its initial value
  bool scale = true;  // if false, gamma is the constant of that value, and no variable
};
// gamma * (x - mean) / sqrt(variance + epsilon) + beta, with statistics over all axes but the last. x is [N, H, W, C]
// or [N, C] with known C; the result has the same shape. Variables, each [C], float64 if x is and otherwise float32:
// gamma and beta (which starts at 0), trainable; moving_mean (0) and moving_variance (1), not trainable.
//
// In training, the two updates of the moving averages are added to the collection kUpdateOps of this scope; run them
// with every step. A layer that is called several times in a step (towers of a siamese network, steps of a recurrent
// one) moves its averages once for each call, in the order of the calls. A batch without examples leaves the averages
// unchanged. The variance is the mean squared deviation, divided by the number of elements and not by one less.
//
// A layer whose moving averages are frozen (ReplicateOptions::frozen) also normalises with them in training, and leaves
// them unchanged.
//
// A tower normalises with the statistics of its own part of the batch or, in a scope of Scope::ShareStatistics, of all
// towers' examples as one batch (synchronised batch normalisation); then every tower with its own moving
// averages must update them. If towers share variables, only one of them may: take the kUpdateOps of one tower.
Output BatchNorm(OpScope scope, absl::string_view name, Output x, const BatchNormOptions& options = {});

}  // namespace belfry::models
