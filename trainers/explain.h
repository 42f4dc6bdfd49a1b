// What a training step would cost.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "framework/runtime/session.h"
#include "models/replicate_towers.h"

namespace belfry::trainers {

// The feeds of a step with a full batch of so many examples, split over the towers as a Prefetcher does.
std::vector<FeedSpec> FeedsOf(const models::TrainStep& step, const models::InputSpec& input, int64_t batch_size);

// ResourceExhausted, with the table of what needs how much, if the step needs more than `limit` bytes on a device.
absl::Status CheckMemoryLimit(Session& session, const models::TrainStep& step, const models::InputSpec& input,
                              int64_t batch_size, size_t limit);

// Compiles the step, and tells its memory, operations, transfers, collectives and critical path; and the largest batch,
// a multiple of the number of towers, with which it needs at most `limit` bytes on every device, or what each device
// has if there is no limit.
absl::StatusOr<std::string> ExplainTraining(Session& session, const models::TrainStep& step,
                                            const models::InputSpec& input, int64_t batch_size,
                                            std::optional<size_t> limit);

}  // namespace belfry::trainers
