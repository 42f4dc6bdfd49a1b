// The cost of a run, from its plans: nothing is executed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "framework/collective/world.h"
#include "framework/collective/world_collective.h"
#include "framework/runtime/session.h"
#include "trainers/loop/planned_step.h"
#include "trainers/prediction/gpu_card.h"

namespace belfry::trainers {

// Makes the session compile steps so that all of these together take at most `limit` bytes of each device
// (Session::LimitArenas). ResourceExhausted, with the least that they take, if they cannot.
absl::Status FitMemoryLimit(Session& session, const std::vector<PlannedStep>& steps, size_t limit);

// Compiles the steps and reports the memory, operations, transfers, collectives and critical path of the first; the
// memory of the others; and the largest batch, a multiple of `towers` and no larger than `examples`, the size of
// the data, with which all steps together fit into `limit` bytes on every device, or into the memory of each device
// if there is no limit.
absl::StatusOr<std::string> ExplainRun(Session& session, const PlannedSteps& steps, int64_t batch_size, int towers,
                                       int64_t examples, std::optional<size_t> limit);

// The predicted time of a step on a card that the session's GPUs are only described as
// (trainers/prediction/gpu_report.h). `options` are the session's. Errors: those of Session::Explain.
absl::StatusOr<std::string> ExplainOnCard(Session& session, const PlannedStep& step, const GpuCard& card,
                                          SessionOptions options);

// The bytes that each process of `world` sends to average the towers of the step by `sum`. Errors: those of
// Session::Explain.
absl::StatusOr<std::string> ExplainAverages(const World& world, Session& session, const PlannedStep& step,
                                            WorldSum sum);

}  // namespace belfry::trainers
