// The steps that a run is going to prepare.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "framework/runtime/session.h"
#include "models/towers/replicate_towers.h"

namespace belfry::trainers {

// One of the steps that a run prepares. Each has its own memory beside the variables.
struct PlannedStep {
  std::string name = {};  // for messages
  std::vector<FeedSpec> feeds = {};
  std::vector<Output> fetches = {};
  std::vector<const Node*> targets = {};
};
// The steps of a run with the given batch size.
using PlannedSteps = std::function<std::vector<PlannedStep>(int64_t batch_size)>;

// The training step for a batch of that shape, split over all towers as a Prefetcher does; of towers in series, the
// update after their runs, which reads no examples. It fetches the loss, the learning
// rate, the metrics, with loss scaling the scale and the number of skipped steps, and the summaries.
PlannedStep TrainingStep(const models::TrainStep& step, const data::BatchShape& batch,
                         absl::Span<const Output> summaries = {});

// The run of tower `index` of each device's series, for a step with towers in series.
PlannedStep RunInSeries(const models::TrainStep& step, const data::BatchShape& batch, int index);

// The steps that a Trainer prepares: the training step with a full batch; the same with the batch that ends an epoch,
// of `last_batch` examples, if that is smaller and not 0; the same with summaries, if there are any. Before them, those
// of towers in series.
std::vector<PlannedStep> TrainingSteps(const models::TrainStep& step, int64_t batch_size, int64_t last_batch,
                                       const std::vector<Output>& summaries);

}  // namespace belfry::trainers
