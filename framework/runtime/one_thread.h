// All lanes of a step on one thread.
#pragma once

#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "framework/runtime/binding.h"
#include "framework/runtime/recheck/recheck.h"
#include "framework/runtime/watch.h"

namespace belfry {

// One entry of a schedule: an instruction of a lane, or a collective together with all of its participants.
struct ScheduledInstruction {
  Lane* lane = nullptr;
  size_t position = 0;                           // of the instruction in the lane
  std::vector<Stream*> streams;                  // collective: the streams of all participants, by participant
  std::vector<std::pair<Lane*, size_t>> others;  // collective: the lanes of the others, and where they meet it
};

// The instructions of all lanes in one order in which nothing precedes what it waits for.
absl::StatusOr<std::vector<ScheduledInstruction>> OrderForOneThread(const BoundPlan& bound);

// Runs a collective for all of its participants, with their lanes' checks.
absl::Status RunForAll(const ScheduledInstruction& scheduled, const BoundInstruction& at, const RunState& state);

// Runs a scheduled instruction. Errors are annotated.
inline absl::Status RunScheduled(const ScheduledInstruction& scheduled, RunState& state, const Watch& watch) {
  BoundInstruction& at = scheduled.lane->instructions[scheduled.position];
  const absl::Status status = RunRechecked(*scheduled.lane, scheduled.position, state, [&] {
    return at.kind == Instruction::Kind::kCollective ? RunForAll(scheduled, at, state) : RunInstruction(at, state);
  });
  return status.ok() ? status : watch.Annotate(status, *scheduled.lane, at);
}

// An estimate of the time of a step from below, in seconds.
double EstimateSeconds(const Program& program);

// The runner of a short step of several CPU devices, for which handing each lane to its thread would take longer than
// running it.
class OneThread {
 public:
  explicit OneThread(const BoundPlan& bound) : bound_(bound) {}
  // Makes the schedule if the step is estimated to be shorter than `short_step`, and may run on one thread.
  absl::Status Prepare(absl::Duration short_step);

  // Whether steps are to be run by Run.
  bool preferred() const { return !schedule_.empty(); }
  // Runs one step on the calling thread. The results are as on several threads.
  absl::Status Run(RunState& state, const Watch& watch);
  // To be called before a run on several threads, after runs on one thread, which do not record events.
  void CatchUpEvents(uint32_t step_index) const;

 private:
  const BoundPlan& bound_;
  std::vector<ScheduledInstruction> schedule_;  // empty: run each lane on its own thread
  absl::Duration short_step_;
  int runs_ = 0;
};

}  // namespace belfry
