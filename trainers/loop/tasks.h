// What the tasks (processes) of a run agree on, and what they hand each other outside of steps.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "framework/collective/world.h"
#include "framework/compiler/plan.h"
#include "framework/data/dataset.h"
#include "framework/graph/variable.h"
#include "framework/runtime/session.h"

namespace belfry::trainers {

// FailedPrecondition unless all tasks have the same lines. The message shows the first line that differs, as it is in
// each of two tasks: "the tasks have different settings: 'steps=100' in task 0 (a, pid 7), 'steps=200' in task 1 ...".
// `what` is "settings". Errors: also those of World::AllGather.
absl::Status CheckSameLines(World& world, absl::string_view what, absl::Span<const std::string> lines,
                            absl::Time deadline);

// The collectives that a plan runs, in order: "tower_0/gradients/bucket_0 mean float32 [384,192] [192] of 4".
std::vector<std::string> CollectiveLines(const Plan& plan);

// The number of a data set's examples, and a checksum of some of them. Errors: those of Dataset::Read.
absl::StatusOr<std::string> DataLine(const data::Dataset& dataset);

// Gives `variables` the values that they have in task 0, in all replicas of this task. All tasks must name the same
// variables in the same order. Errors: those of World::Broadcast, and of reading and writing variables.
absl::Status CopyFromTaskZero(World& world, Session& session, absl::Span<const Variable> variables,
                              absl::Time deadline);

// Lets all tasks stop after the same step, when one of them has noted a signal. They exchange what they noted about ten
// times a second, at steps that task 0 fixes the last time that they did. Not thread-safe.
class StopAgreement {
 public:
  StopAgreement(World& world, int64_t first_step);
  // The signal that one of the tasks noted before this step, or 0. Call it after each step with this task's own.
  // Errors: those of World::Exchange.
  absl::StatusOr<int> AfterStep(int64_t step, int noted, absl::Time deadline);

 private:
  struct Message {
    int32_t signal = 0;
    int32_t interval = 1;  // in steps, until the next exchange
  };

  World& world_;
  const int tag_;
  int64_t next_, last_;  // steps of the next exchange, and of the last one
  absl::Time since_;     // of the last one
  Message own_;
  std::vector<Message> others_;  // by task
  Transfers ask_, answer_;
};

}  // namespace belfry::trainers
