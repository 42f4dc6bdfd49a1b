// Metrics. None of them is differentiable.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/graph/scope.h"

namespace belfry::models {

// The collection of a tower's figures that the trainer shows beside the loss: floating-point scalars, each a mean over
// the tower's examples or by the weight that its loss states (SetLossWeight), the same in number and order in each
// tower. AddMetric adds one by its name, and Scope::AddToCollection(kMetrics, figure) one by the name of its node below
// the tower. The trainer refuses a name that another figure has, such as "loss".
inline constexpr char kMetrics[] = "metrics";
// Adds a figure, which is shown under `name`: AddMetric(tower, "accuracy", Accuracy(tower, logits, labels)).
void AddMetric(OpScope tower, absl::string_view name, Output figure);

// A figure of a tower or of a step besides the loss.
struct TrainMetric {
  std::string name = {};  // "cross_entropy"
  Output mean = {};       // scalar: the mean over the tower, or over all towers of the step in float32
};
// The kMetrics of a tower, except one that is all of its loss by kLosses. InvalidArgument names one that is no
// floating-point scalar.
absl::StatusOr<std::vector<TrainMetric>> TowerMetrics(const Scope& tower);

// For logits [N, classes] and labels [N] (int32 or int64): float32 [N], 1 where the label's class has the largest logit
// (the first of equal ones), otherwise 0.
Output Correct(OpScope scope, Output logits, Output labels);
// The mean of Correct, a scalar: precision @ 1. NaN for an empty batch.
Output Accuracy(OpScope scope, Output logits, Output labels);
// The fraction of examples for which fewer than k classes have a larger logit than the label's class (ops::InTopK).
Output TopKAccuracy(OpScope scope, Output logits, Output labels, int64_t k);

}  // namespace belfry::models
