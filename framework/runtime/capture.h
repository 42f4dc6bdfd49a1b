// A steady step, captured once and replayed, as a whole or in pieces.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "framework/collective/capture.h"
#include "framework/runtime/binding.h"
#include "framework/runtime/watch.h"

namespace belfry {

// Captures a step of asynchronous devices after two plain runs, and replays it from then on. The staging places of
// feeds and fetches alternate between runs, so their copies are not part of the capture. One thread at a time, except
// for ReplayPiece.
//
// A step with a collective that cannot be captured, such as one among several processes, is captured in pieces: each
// maximal run of consecutive kernels of a stream, of at least kLeastKernels, becomes a graph. Collectives, waits and
// records stay between the pieces and are issued as in a plain run, so the same events order the streams. A piece
// holds no event of the plan, and no fork of its streams.
class StepCapture {
 public:
  // A graph takes the host about as long to launch as two or three kernels, each launched by itself.
  static constexpr size_t kLeastKernels = 4;

  // `enabled`: whether the session captures steps. A step with a kernel that cannot be repeated never is.
  StepCapture(const BoundPlan& bound, const Watch& watch, bool enabled);

  // True if runs are replayed as a whole, by Replay.
  bool captured() const { return captured_ != nullptr; }
  // True if runs are replayed in pieces, each by ReplayPiece (Lane::pieces).
  bool in_pieces() const { return in_pieces_; }
  // Whether to call TryToCapture before the next run.
  bool due() const { return runs_until_capture_ == 0; }
  // Counts a plain run that did not fail.
  void CountRun() {
    if (runs_until_capture_ > 0) --runs_until_capture_;
  }
  // Captures the step; as a whole it takes one step index. If that fails, runs continue kernel by kernel; after a
  // transient failure the step is captured again later. REQUIRES: due(), and nothing is in flight.
  void TryToCapture(RunState& state);
  // Enqueues the captured step with its feeds and fetches. If the captured work cannot be enqueued, drops it and
  // returns the error. REQUIRES: captured().
  absl::Status Replay(RunState& state);
  // Enqueues a piece of a lane. If that fails, DropIfEnded drops all pieces. Each lane may have its own thread.
  absl::Status ReplayPiece(const Lane& lane, const Piece& piece, RunState& state);
  // Drops a capture that a failed collective has ended, or pieces of which one could not be enqueued; the step is
  // captured again after two plain runs.
  void DropIfEnded();

 private:
  static constexpr int kPlainRuns = 2;  // before a capture: they allocate what libraries allocate
  static constexpr int kNever = -1;

  absl::StatusOr<std::shared_ptr<CapturedStep>> Capture(RunState& state);
  absl::Status CaptureInstructions(RunState& state, const std::vector<std::unique_ptr<Event>>& rejoined);
  void TryToCaptureWhole(RunState& state);
  void TryToCapturePieces(RunState& state);
  absl::Status CapturePieces(RunState& state);
  absl::Status CapturePiece(Lane& lane, Piece& piece, RunState& state);
  void Settle(const absl::Status& attempt);
  void Drop();

  const BoundPlan& bound_;
  const Watch& watch_;
  const bool whole_;  // all collectives can be captured
  int runs_until_capture_ = kNever;
  std::shared_ptr<CapturedStep> captured_;  // by the first lane's first stream; null: runs are not replayed as a whole
  bool in_pieces_ = false;
  std::atomic<bool> piece_failed_{false};  // one could not be enqueued
};

}  // namespace belfry
