// The phases of a training loop: how long they take, and which of them it is in.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "framework/runtime/session.h"
#include "trainers/callbacks/callback.h"

namespace belfry::trainers {

// Used by the thread of the loop, except for Position.
class LoopTimer {
 public:
  enum class Phase { kStarting, kReading, kStep, kEvaluating, kOther };

  LoopTimer() { Restart(); }
  // Ends the phase before, at first kStarting, and returns the time by SteadyNow.
  absl::Time Enter(Phase phase, int64_t step);
  // The step that kStep is running; until then it is being compiled.
  void SetRunning(const PreparedStep& step) { running_.store(&step, std::memory_order_release); }
  // The beginning of the loop: forgets the times so far.
  void Restart();
  // A step has ended; `examples` is the number of examples of all steps so far.
  void CountStep(int64_t examples);

  bool starting() const { return phase_.load(std::memory_order_relaxed) == Phase::kStarting; }
  // The times of completed phases.
  const PhaseTimes& times() const { return times_; }
  // Throughput without the first step, which compiles, and without evaluations; 0: not known.
  double examples_per_second() const;
  // The place of the loop, for World::RollCall: "step 7: has been reading the next batch for 2s". Thread-safe.
  std::string Position() const;

 private:
  PhaseTimes times_;
  absl::Time start_;  // of the phase
  std::atomic<Phase> phase_{Phase::kStarting};
  std::atomic<int64_t> step_{0}, since_{0};  // since: in ns of SteadyNow
  std::atomic<const PreparedStep*> running_{nullptr};
  // Without evaluations: at the end of the first step, and of the last.
  absl::Duration first_time_, last_time_;
  int64_t first_examples_ = 0, last_examples_ = 0;
};

}  // namespace belfry::trainers
