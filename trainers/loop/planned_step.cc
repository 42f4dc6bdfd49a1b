#include "trainers/loop/planned_step.h"

#include <utility>

#include "framework/data/sampler.h"

namespace belfry::trainers {

PlannedStep TrainingStep(const models::TrainStep& step, int64_t examples, absl::Span<const Output> summaries) {
  PlannedStep planned{.name = "training", .fetches = {step.loss, step.learning_rate}, .targets = {step.update}};
  for (int i = 0; i < static_cast<int>(step.towers.size()); ++i) {
    const int64_t count = data::RangeOfTower(examples, step.towers_in_all, step.first_tower + i).count;
    for (FeedSpec& feed : step.towers[i].batch.FeedSpecs(count)) planned.feeds.push_back(std::move(feed));
  }
  std::vector<Output>& fetches = planned.fetches;
  for (const models::TrainMetric& metric : step.metrics) fetches.push_back(metric.mean);
  if (step.loss_scale.valid()) fetches.insert(fetches.end(), {step.loss_scale, step.skipped_steps});
  fetches.insert(fetches.end(), summaries.begin(), summaries.end());
  return planned;
}

std::vector<PlannedStep> TrainingSteps(const models::TrainStep& step, int64_t batch_size, int64_t examples,
                                       const std::vector<Output>& summaries) {
  std::vector<PlannedStep> steps = {TrainingStep(step, batch_size)};
  if (const int64_t rest = examples % batch_size; rest != 0 && examples > batch_size) {
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
