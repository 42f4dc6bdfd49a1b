// Towers in series: a device runs several towers one after the other, each in a run of TrainStep::accumulate, and adds
// up their gradients in transient variables. TrainStep::update averages and applies the sums. Internal to models.
#pragma once

#include <vector>

#include "absl/types/span.h"
#include "framework/graph/scope.h"
#include "models/towers/averaging.h"
#include "models/towers/replicate_towers.h"
#include "optim/apply.h"

namespace belfry::models {

// Adds the inputs that tell a tower which one of its device's series it is.
void AddSeriesInputs(BuiltTower& tower);
// True in the run of the first tower of each device: when the model's own updates of variables take place.
Output IsFirstOfSeries(const BuiltTower& tower);

// Adds the node that runs one tower on every device: it adds the gradients to the sums of the series, and notes the
// loss, the metrics and the weight. Afterwards the towers' `gradients` and `touched` are the sums, and `figures` what
// was noted. `updates`: nodes to run, too. Null after an error.
const Node* AddToSums(const Scope& root, absl::Span<BuiltTower> towers, int series,
                      absl::Span<const Node* const> updates);
// Sets TrainStep::loss and metrics as AddMeanFigures does. Returns the sum of all weights, a float64 scalar; that it is
// 0 is an error on CPUs, and NaN on GPUs.
Output AddSeriesFigures(const Scope& scope, absl::Span<const BuiltTower> towers, int series, TrainStep& step);
// AverageGradients for the sums, with `total` the sum of all weights.
std::vector<std::vector<optim::GradientAndVariable>> AverageSums(absl::Span<const BuiltTower> towers,
                                                                 const GradientBuckets& buckets, bool parts,
                                                                 Output total);

}  // namespace belfry::models
