// The handle for a step that runs again and again.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "framework/base/tensor.h"
#include "framework/compiler/plan.h"
#include "framework/runtime/session_state.h"
#include "framework/runtime/step_trace.h"
#include "framework/runtime/variable_store.h"

namespace belfry {

class Executable;
class Session;

// A plan with its own memory, made by Session::Prepare. Run looks nothing up, allocates nothing and, if the step uses
// one CPU device, takes no lock. One thread at a time; several may be prepared for several threads. Must not outlive
// its session.
class PreparedStep {
 public:
  ~PreparedStep();
  // True if Run returns before the step is done, because it uses only GPUs.
  bool asynchronous() const;
  // True once its runs are replayed, as a whole or in pieces (SessionOptions::replay).
  bool replays() const;
  // Runs one step. `feeds` are in the order of Prepare's, without those that are bound, and are copied before it
  // returns. Errors: a feed of another shape or dtype than was prepared, an uninitialized variable, whatever the
  // kernels report, DeadlineExceeded, Cancelled once the session is closed. After an error the step can be run again.
  //
  // A step that uses only GPUs returns once it is enqueued, with at most one earlier run in flight; its later errors
  // are reported by Wait or by the next Run.
  absl::Status Run(absl::Span<const Tensor> feeds = {});
  // Runs one step instruction by instruction, even if other runs are replayed, waits for it, and measures the times of
  // its instructions.
  absl::Status RunTraced(absl::Span<const Tensor> feeds, StepTrace& trace);
  // Waits until the last Run is done, and reports errors that occurred after it returned; DeadlineExceeded once the
  // deadline of that step has passed.
  absl::Status Wait();
  // Lets the step read feed `i`, in each run from now on, from memory of the program instead of a tensor: `feeds` of
  // Run are then those that are not bound. On a CPU it is read where it lies, without a copy, if its address is a
  // multiple of kAlignment (framework/base/alignment.h) and no op of the step works in place on the feed; otherwise
  // each run copies it. The memory must outlive the step, or be there until another is bound. InvalidArgument: another
  // dtype or number of elements than was prepared. Waits for the last run; not thread-safe.
  template <class T>
  absl::Status Bind(int i, absl::Span<const T> elements) {
    return BindFeed(i, kDTypeOf<T>, elements.size(), elements.data());
  }
  // Lets the step write fetch `i` to memory of the program, from the next run on: on a CPU without a copy, under the
  // same conditions, unless the fetch is a variable, a constant, a feed or made in place of one, or a part of another
  // tensor. fetched(i) is then this memory, with what the last run left there, also one that failed. It may be that of
  // a feed, which is copied first, but not of another fetch: InvalidArgument. Otherwise as Bind.
  template <class T>
  absl::Status BindResult(int i, absl::Span<T> elements) {
    return BindFetch(i, kDTypeOf<T>, elements.size(), elements.data());
  }
  // Fetch `i` of the last successful Run, for which it waits; overwritten by the next. Clone() it to keep it.
  const Tensor& fetched(int i);
  const Plan& plan() const;
  // Where the current run is: a line for each device with the instruction that it executes or waits in, and since when.
  // Known of runs with a deadline. Thread-safe.
  std::string Position() const;

 private:
  friend class Session;
  PreparedStep(SessionState& session, std::unique_ptr<Executable> executable, std::vector<Output> feeds,
               std::vector<Tensor> fetched);
  absl::Status BindFeed(int i, DType dtype, size_t elements, const void* data);
  absl::Status BindFetch(int i, DType dtype, size_t elements, void* data);
  absl::Status Check(absl::Span<const Tensor> feeds) const;
  absl::Status RunFed(absl::Span<const Tensor> feeds, StepTrace* trace);
  absl::Status CheckInitialized();
  void MarkInitialized();
  void MarkTouched();

  SessionState& session_;
  std::unique_ptr<Executable> executable_;
  const std::vector<Output> feeds_;
  std::vector<int> fed_;  // those that are not bound
  std::vector<Tensor> fetched_;
  std::vector<std::pair<const Node*, VariableStorage*>> reads_, writes_;  // by variable
  bool exclusive_ = false;    // it writes variables, or needs the device threads or the session's streams
  bool under_way_ = false;    // the fetches of the last Run have not been read yet
  absl::Time deadline_;       // of the last Run
  absl::Status unreported_;   // an error that fetched() met
  bool initialized_ = false;  // all of reads_ are known to be
  size_t untouched_ = 0;      // its part of SessionState::untouched
  std::atomic<bool> busy_{false};
};

}  // namespace belfry
