// What a run would cost.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "framework/runtime/session.h"
#include "models/replicate_towers.h"

namespace belfry::trainers {

// One of the steps that a run prepares. Each has memory of its own beside the variables.
struct PlannedStep {
  std::string name;  // for a person
  std::vector<FeedSpec> feeds;
  std::vector<Output> fetches;
  std::vector<const Node*> targets;
};
// Those of a run with so many examples a batch.
using PlannedSteps = std::function<std::vector<PlannedStep>(int64_t batch_size)>;

// What a Trainer prepares: the training step, with a full batch split over the towers as a Prefetcher does; the same
// with the batch that ends an epoch of `examples`, if that is smaller; the same with summaries, if there are any.
std::vector<PlannedStep> TrainingSteps(const models::TrainStep& step, const models::InputSpec& input,
                                       int64_t batch_size, int64_t examples, const std::vector<Output>& summaries);

// ResourceExhausted, with the table of what the first step needs, if all steps together need more than `limit` bytes on
// a device.
absl::Status CheckMemoryLimit(Session& session, const std::vector<PlannedStep>& steps, size_t limit);

// Compiles the first step, and tells its memory, operations, transfers, collectives and critical path; what the others
// need beside it; and the largest batch, a multiple of `towers`, with which all steps together need at most `limit`
// bytes on every device, or what each device has if there is no limit.
absl::StatusOr<std::string> ExplainRun(Session& session, const PlannedSteps& steps, int64_t batch_size, int towers,
                                       std::optional<size_t> limit);

}  // namespace belfry::trainers
