#include "trainers/loop/planned_step.h"

#include <algorithm>
#include <utility>

#include "framework/data/sampler.h"

namespace belfry::trainers {

PlannedStep TrainingStep(const models::TrainStep& step, const data::BatchShape& batch,
                         absl::Span<const Output> summaries) {
  PlannedStep planned{.name = "training", .fetches = {step.loss, step.learning_rate}, .targets = {step.update}};
  for (int i = 0; i < static_cast<int>(step.towers.size()) && step.micro_batches == 1; ++i) {
    const int64_t count = data::RangeOfTower(batch.examples, step.towers_in_all, step.first_tower + i).count;
    for (FeedSpec& feed : step.towers[i].batch.FeedSpecs(count, batch.extents))
      planned.feeds.push_back(std::move(feed));
  }
  std::vector<Output>& fetches = planned.fetches;
  for (const models::TrainMetric& metric : step.metrics) fetches.push_back(metric.mean);
  if (step.loss_scale.valid()) fetches.insert(fetches.end(), {step.loss_scale, step.skipped_steps});
  fetches.insert(fetches.end(), summaries.begin(), summaries.end());
  return planned;
}

PlannedStep RunInSeries(const models::TrainStep& step, const data::BatchShape& batch, int index) {
  PlannedStep planned{.name = "training, a tower on each device", .targets = {step.accumulate}};
  for (int i = 0; i < static_cast<int>(step.towers.size()); ++i) {
    const int tower = step.first_tower + i * step.micro_batches + index;
    const int64_t count = data::RangeOfTower(batch.examples, step.towers_in_all, tower).count;
    for (FeedSpec& feed : step.towers[i].batch.FeedSpecs(count, batch.extents))
      planned.feeds.push_back(std::move(feed));
    planned.feeds.push_back({step.towers[i].index, {}});
    planned.feeds.push_back({step.towers[i].first_example, {}});
  }
  return planned;
}

namespace {

// Adds one run for each different split of the examples among the devices.
void AddRunsInSeries(const models::TrainStep& step, int64_t examples, std::vector<PlannedStep>& steps) {
  const auto same_feeds = [](const PlannedStep& a, const PlannedStep& b) {
    return std::equal(a.feeds.begin(), a.feeds.end(), b.feeds.begin(), b.feeds.end(),
                      [](const FeedSpec& x, const FeedSpec& y) { return x.shape == y.shape; });
  };
  for (int index = 0; index < step.micro_batches; ++index) {
    PlannedStep planned = RunInSeries(step, examples, index);
    const bool known =
        std::any_of(steps.begin(), steps.end(), [&](const PlannedStep& one) { return same_feeds(one, planned); });
    if (!known) steps.push_back(std::move(planned));
  }
}

}  // namespace

std::vector<PlannedStep> TrainingSteps(const models::TrainStep& step, int64_t batch_size, int64_t last_batch,
                                       const std::vector<Output>& summaries) {
  std::vector<PlannedStep> steps;
  const int64_t rest = last_batch < batch_size ? last_batch : 0;
  if (step.micro_batches > 1) {
    AddRunsInSeries(step, batch_size, steps);
    if (rest != 0) AddRunsInSeries(step, rest, steps);
  }
  steps.push_back(TrainingStep(step, batch_size));
  if (rest != 0 && step.micro_batches == 1) {
    steps.push_back(TrainingStep(step, rest));
    steps.back().name = "training with the batch that ends an epoch";
  }
  if (!summaries.empty()) {
    steps.push_back(TrainingStep(step, batch_size, summaries));
    steps.back().name = "training with summaries";
  }
  return steps;
}

}  // namespace belfry::trainers
