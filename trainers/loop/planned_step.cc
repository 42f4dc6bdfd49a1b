#include "trainers/loop/planned_step.h"

#include <utility>

#include "framework/data/sampler.h"

namespace belfry::trainers {

std::vector<FeedSpec> TrainingFeeds(const models::TrainStep& step, int64_t examples) {
  std::vector<FeedSpec> feeds;
  for (int i = 0; i < static_cast<int>(step.towers.size()); ++i) {
    const int64_t count = data::RangeOfTower(examples, step.towers_in_all, step.first_tower + i).count;
    for (FeedSpec& feed : step.towers[i].batch.FeedSpecs(count)) feeds.push_back(std::move(feed));
  }
  return feeds;
}

std::vector<PlannedStep> TrainingSteps(const models::TrainStep& step, int64_t batch_size, int64_t examples,
                                       const std::vector<Output>& summaries) {
  const auto planned = [&](std::string name, int64_t batch) {
    PlannedStep made{.name = std::move(name),
                     .feeds = TrainingFeeds(step, batch),
                     .fetches = {step.loss, step.learning_rate},
                     .targets = {step.update}};
    if (step.loss_scale.valid()) made.fetches.insert(made.fetches.end(), {step.loss_scale, step.skipped_steps});
    return made;
  };
  std::vector<PlannedStep> steps = {planned("training", batch_size)};
  if (const int64_t rest = examples % batch_size; rest != 0 && examples > batch_size) {
    steps.push_back(planned("training with the batch that ends an epoch", rest));
  }
  if (!summaries.empty()) {
    PlannedStep with_summaries = planned("training with summaries", batch_size);
    with_summaries.fetches.insert(with_summaries.fetches.end(), summaries.begin(), summaries.end());
    steps.push_back(std::move(with_summaries));
  }
  return steps;
}

}  // namespace belfry::trainers
