// Batch normalisation as a layer (Ioffe and Szegedy, 2015).
#pragma once

#include "absl/strings/string_view.h"
#include "framework/graph/scope.h"

namespace belfry::models {

struct BatchNormOptions {
  bool training = true;    // normalise by the batch's statistics and move the averages; else by the moving averages
  double momentum = 0.99;  // 0 to 1, of the moving averages: average = momentum average + (1 - momentum) batch
  double epsilon = 1e-3;
};
// gamma (x - mean) / sqrt(variance + epsilon) + beta over all axes but the last: x [N, H, W, C] or [N, C], C known,
// gives the same shape. Variables, each [C] and float64 if x is, else float32: gamma (starts at 1) and beta (0),
// trained; moving_mean (0) and moving_variance (1), which are not.
//
// While training, the two updates of the moving averages are added to the collection kUpdateOps of this scope: run them
// with every step. A batch without examples leaves them alone. The variance is divided by the number of elements, not
// by one less.
//
// A tower normalises by the statistics of its own part of the batch or, in a scope of Scope::ShareStatistics, by those
// of all towers' examples as one batch (synchronised batch normalisation); then every tower that has moving averages of
// its own must update them. Towers that share variables must not all update them: take the kUpdateOps of one tower.
Output BatchNorm(OpScope scope, absl::string_view name, Output x, const BatchNormOptions& options = {});

}  // namespace belfry::models
