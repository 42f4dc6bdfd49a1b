// Observing a run: its positions, its deadline, its values and its timing.
#pragma once

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "framework/runtime/binding.h"
#include "framework/runtime/result_observer.h"
#include "framework/runtime/step_trace.h"

namespace belfry {

// `status` with the name of the device where it occurred.
absl::Status OnDevice(const absl::Status& status, const Device& device);

// Runs the instructions of watched runs: those that have a deadline, are traced or observed, or belong to a session
// with SessionOptions::debug_sync or check_numerics. A run that is not watched costs nothing.
class Watch {
 public:
  // `observer`: Session::Observe; may be null.
  Watch(const BoundPlan& bound, bool debug_sync, bool check_numerics, ResultObserver observer)
      : bound_(bound), debug_sync_(debug_sync), check_numerics_(check_numerics), observer_(std::move(observer)) {}

  // Begins a run, and decides whether it is watched. The first traced run allocates clocks.
  absl::Status Begin(bool traced, absl::Time deadline);
  bool watched() const { return watched_; }
  bool traced() const { return traced_; }

  // Notes that a lane of a watched run is about to issue an instruction. DeadlineExceeded if it is too late.
  static absl::Status Reach(Lane& lane, size_t position, const RunState& state);
  // RunInstruction for a watched run. Errors: also DeadlineExceeded, and InvalidArgument for a NaN or infinity.
  absl::Status Run(Lane& lane, size_t position, RunState& state);
  // Notes that a lane has issued its whole program.
  static void Finish(Lane& lane) { lane.position.store(lane.instructions.size(), std::memory_order_relaxed); }
  // Fills in the trace of the run. REQUIRES: it was traced, and is done on all devices.
  absl::Status FinishTrace(StepTrace& trace) const;

  // `status` of an instruction with the node, the device and the user's line; with all lanes' positions if its deadline
  // has passed. Thread-safe.
  absl::Status Annotate(const absl::Status& status, const Lane& lane, const BoundInstruction& at) const;
  // The position of each lane, one per line. Thread-safe.
  std::string Positions() const;

 private:
  absl::Status MakeClocks() const;
  absl::Status CheckNumerics(const Lane& lane, const BoundInstruction& at) const;
  absl::Status Observe(const Lane& lane, const BoundInstruction& at, uint64_t run) const;
  // `data` of that spec, in the memory of the lane's device, or a copy of it in `copy`, in host memory.
  absl::StatusOr<const void*> OnHost(const Lane& lane, const BoundInstruction& at, const TensorSpec& spec,
                                     const void* data, Tensor& copy) const;
  std::string WaitText(const BoundInstruction& at) const;
  std::string PositionOf(const Lane& lane, absl::Time now) const;

  const BoundPlan& bound_;
  const bool debug_sync_, check_numerics_;
  const ResultObserver observer_;
  bool traced_ = false, watched_ = false;  // the current run
  absl::Time begin_;                       // of a traced run
};

}  // namespace belfry
