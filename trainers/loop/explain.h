// The cost of a run, from its plans: nothing is executed.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "framework/collective/world.h"
#include "framework/runtime/prediction/predict.h"
#include "framework/runtime/session.h"
#include "models/replicate_towers.h"

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

// The steps that a Trainer prepares: the training step with a full batch, split over all towers as a Prefetcher does;
// the same with the batch that ends an epoch of `examples`, if that is smaller; the same with summaries, if there are
// any.
std::vector<PlannedStep> TrainingSteps(const models::TrainStep& step, int64_t batch_size, int64_t examples,
                                       const std::vector<Output>& summaries);

// ResourceExhausted if all steps together need more than `limit` bytes on a device.
absl::Status CheckMemoryLimit(Session& session, const std::vector<PlannedStep>& steps, size_t limit);

// Compiles the steps and reports the memory, operations, transfers, collectives and critical path of the first; the
// memory of the others; and the largest batch, a multiple of `towers` and no larger than the data of so many
// `examples`, with which all steps together fit into `limit` bytes on every device, or into the memory of each device
// if there is no limit.
absl::StatusOr<std::string> ExplainRun(Session& session, const PlannedSteps& steps, int64_t batch_size, int towers,
                                       int64_t examples, std::optional<size_t> limit);

// The bytes that each process of `world` sends to average the towers of the step, and the time that it takes on the
// link between two of them, which is measured. All processes must call it. Errors: those of Prepare and of MeasureLink.
absl::StatusOr<std::string> ExplainLink(World& world, Session& session, const PlannedStep& step, ExchangeWay way,
                                        absl::Time deadline);

}  // namespace belfry::trainers
