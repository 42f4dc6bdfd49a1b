// A steady step, captured once and replayed as a whole.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "framework/collective/capture.h"
#include "framework/runtime/binding.h"
#include "framework/runtime/watch.h"

namespace belfry {

// Captures a step of asynchronous devices after two plain runs, and replays it from then on. The staging places of
// feeds and fetches alternate between runs, so their copies are not part of the capture. One thread at a time.
class StepCapture {
 public:
  // `enabled`: whether the session captures steps. A step with a kernel or collective that cannot be captured never is.
  StepCapture(const BoundPlan& bound, const Watch& watch, bool enabled)
      : bound_(bound), watch_(watch), runs_until_capture_(enabled && CanCapture(bound) ? kPlainRuns : kNever) {}

  // Whether runs are replayed.
  bool captured() const { return captured_ != nullptr; }
  // Whether to call TryToCapture before the next run.
  bool due() const { return runs_until_capture_ == 0; }
  // Counts a plain run that did not fail.
  void CountRun() {
    if (runs_until_capture_ > 0) --runs_until_capture_;
  }
  // Captures the step, which takes one step index. If that fails, runs continue piece by piece; after a transient
  // failure the step is captured again later. REQUIRES: due(), and nothing is in flight.
  void TryToCapture(RunState& state);
  // Enqueues the captured step with its feeds and fetches. If the captured work cannot be enqueued, drops it and
  // returns the error. REQUIRES: captured().
  absl::Status Replay(RunState& state);
  // Drops a capture that a failed collective has ended; the step is captured again after two plain runs.
  void DropIfEnded();

 private:
  static constexpr int kPlainRuns = 2;  // before a capture: they allocate what libraries allocate
  static constexpr int kNever = -1;

  static bool CanCapture(const BoundPlan& bound);
  absl::StatusOr<std::shared_ptr<CapturedStep>> Capture(RunState& state);
  absl::Status CaptureInstructions(RunState& state, const std::vector<std::unique_ptr<Event>>& rejoined);
  void Drop();

  const BoundPlan& bound_;
  const Watch& watch_;
  int runs_until_capture_;
  std::shared_ptr<CapturedStep> captured_;  // by the first lane's first stream; null: runs are not replayed
};

}  // namespace belfry
