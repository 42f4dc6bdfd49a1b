// A plan that is ready to run: what a step executes.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "framework/base/tensor.h"
#include "framework/runtime/binding.h"
#include "framework/runtime/capture.h"
#include "framework/runtime/host/host_memory.h"
#include "framework/runtime/one_thread.h"
#include "framework/runtime/recheck/recheck.h"
#include "framework/runtime/result_observer.h"
#include "framework/runtime/step_trace.h"
#include "framework/runtime/watch.h"

namespace belfry {

// The SessionOptions of these names.
struct ExecutionOptions {
  bool replay = true;
  absl::Duration short_step = {};
  bool debug_sync = false, check_numerics = false;
  ResultObserver observer = {};  // Session::Observe
  double recheck = 0;
};

// Limits of one run.
struct RunLimits {
  absl::Time deadline = absl::InfiniteFuture();
  const std::atomic<bool>* cancelled = nullptr;  // polled between instructions; null: the run cannot be cancelled
};

// One copy of a plan's arenas and kernels, which serves one run at a time. Create allocates everything; a run allocates
// nothing, looks nothing up and, on a single CPU device, wakes no thread and takes no lock.
//
// A single lane (see Lane) runs on the caller's thread, several run on one thread each, or all on the caller's when the
// step is shorter than a hand-over to other threads. A run on asynchronous devices alone returns once it is enqueued,
// with at most one earlier run in flight; a steady step of such devices is captured and replayed (StepCapture).
class Executable {
 public:
  static absl::StatusOr<std::unique_ptr<Executable>> Create(CompiledPlan compiled,
                                                            const BindingEnvironment& environment,
                                                            const ExecutionOptions& options);
  // Waits for the last run.
  ~Executable();
  // Starts the threads that runs need: for several lanes, or, unless the step is short, for the parallel loops
  // of the calling thread, which is likely to run it. Call it before the first run. ResourceExhausted if the
  // system refuses them.
  absl::Status StartThreads(DeviceThreads& threads, absl::Duration short_step);

  const Plan& plan() const { return *bound_.plan; }
  // PreparedStep::Position.
  std::string Position() const { return watch_.Positions(); }
  const HostCopy& feed(int i) const { return bound_.feeds[i]; }
  const HostCopy& fetch(int i) const { return bound_.fetches[i]; }
  // host_memory.h. REQUIRES: nothing is in flight.
  void BindFeed(int i, const void* elements) { belfry::BindFeed(bound_, i, elements, rebinds()); }
  void BindFetch(int i, void* elements) { belfry::BindFetch(bound_, i, elements, rebinds()); }
  // True if it uses asynchronous devices, so that only one run of the session may use it at a time.
  bool asynchronous() const { return bound_.asynchronous; }
  // True once a run has found that something was computed or kept wrong (SessionOptions::recheck). Thread-safe.
  bool found_corruption() const { return recheck_ != nullptr && recheck_->found(); }
  // True once runs are replayed, as a whole or in pieces.
  bool replays() const { return capture_.captured() || capture_.in_pieces(); }

  // Runs one step. `run` numbers the session's runs. `feeds` fit feed(i), for those that have no memory
  // of the program, and are copied before it returns. The first
  // error wins, stops every lane, and names the node, the device and the user's line; afterwards the executable can be
  // run again. If work enqueued by an earlier run failed, returns that error and does not start this run. The error of
  // a step that had begun to update variables says so: variables that it had not reached keep their former values, and
  // a variable updated by an element-wise pass may be updated in part. `trace`: null, or receives the times of the run,
  // which is then not replayed, and done on return.
  absl::Status Run(uint64_t run, absl::Span<const Tensor> feeds, const RunLimits& limits, StepTrace* trace);
  // Waits until the devices are done with the last run. Does not need the session's gate: other steps may run.
  absl::Status AwaitDevices(absl::Time deadline);
  // Waits for the last run, and copies the fetches of the last run that did not fail. REQUIRES: tensors that fit
  // fetch(i).
  absl::Status Fetch(absl::Time deadline, std::vector<Tensor>& fetches);

 private:
  Executable(BoundPlan bound, std::unique_ptr<Recheck> recheck, const ExecutionOptions& options);

  absl::Status RunHere(uint64_t run, absl::Span<const Tensor> feeds, const RunLimits& limits, StepTrace* trace);
  absl::Status AwaitRoom(absl::Time deadline);
  absl::Status AwaitEnd(absl::Time deadline);
  absl::Status AwaitDevice(int device, uint32_t run, absl::Time deadline);
  absl::Status FindErrors(const Lane& lane) const;
  uint64_t CountAborts() const;
  absl::Status CheckAborts();
  absl::Status RunLanes();
  absl::Status RunLane(Lane& lane);
  absl::Status RunWholeLane(Lane& lane);
  absl::Status RunInstructions(Lane& lane, size_t begin, size_t end);
  absl::Status RunPiece(Lane& lane, const Piece& piece);
  // A recheck computes with addresses of its own, which do not move.
  bool rebinds() const { return !bound_.asynchronous && recheck_ == nullptr; }
  bool stopped() const { return failed_.load(std::memory_order_relaxed) || state_.is_cancelled(); }
  absl::Status WhyStopped(const Lane& lane, const BoundInstruction& at) const;
  absl::Status RunOnThreads();
  bool MetDeadline(const Lane& lane) const;
  // OK if no lane has met it.
  absl::Status DeadlineError() const;
  absl::Status BeginLane(Lane& lane);
  absl::Status EndLane(Lane& lane);
  void Fail(absl::Status status);
  void Recover();

  BoundPlan bound_;
  const std::unique_ptr<Recheck> recheck_;  // null: SessionOptions::recheck is 0
  Watch watch_;
  OneThread one_thread_;
  StepCapture capture_;         // declared after bound_: goes before the collectives in it
  RunState state_;              // the state of the current run
  std::vector<uint32_t> ends_;  // for each device: DeviceQueues::runs() at the end of the last run
  bool has_team_ = false;       // a CPU of the caller's lane has several threads
  int last_ok_ = 0;             // staging place of the last run that did not fail
  bool in_flight_ = false;      // a run was enqueued, and nothing has waited for its end
  uint64_t aborts_ = 0;         // aborts of the collectives before the runs in flight
  std::atomic<bool> failed_{false};
  absl::Status error_;  // written once, by the thread that sets failed_
};

}  // namespace belfry
