// Towers in series: a device runs several towers one after the other, each in a run of TrainStep::accumulate, and adds
// up their gradients in transient variables. TrainStep::update averages and applies the sums. Internal to models.
#pragma once

#include <vector>

#include "absl/types/span.h"
#include "framework/graph/scope.h"
#include "models/towers/averaging.h"
#include "models/towers/replicate_towers.h"
#include "models/towers/tower_updates.h"
#include "optim/apply.h"

namespace belfry::models {

// Adds the inputs that tell a tower which one of its device's series it is.
void AddSeriesInputs(BuiltTower& tower);
// The condition of a model's own updates of variables: they take place in the run of the first tower of each device.
// `may_skip`: the step has loss scaling; KeepFormerValues then gives it its value.
Output ConditionInSeries(const BuiltTower& tower, bool may_skip);

// A variable that the model itself updates, and a copy of its value before the step.
struct FormerValue {
  Variable variable, former;
};
// A step that loss scaling skips is known only in its update, when the first tower's own `updates` of
// variables have taken place. So these are copied before.
std::vector<FormerValue> KeepFormerValues(absl::Span<const BuiltTower> towers, absl::Span<const Node* const> updates);
// The node that gives a variable its former value if the step is skipped.
const Node* RestoreIfSkipped(const TowerUpdates& updates, const FormerValue& former);

// Adds the node that runs one tower on every device: it adds the gradients to the sums of the series, and notes the
// loss, the metrics and the weight. Afterwards the towers' `sums` are the sums of their gradients, `touched` are
// sums, too, and `figures` what was noted. `updates`: other nodes to run. Null after an error.
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
