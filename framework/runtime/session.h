// Runs a graph.
#pragma once

#include <atomic>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "framework/base/mutex.h"
#include "framework/base/tensor.h"
#include "framework/compiler/compile.h"
#include "framework/compiler/memory_report.h"
#include "framework/compiler/place.h"
#include "framework/device/device_set.h"
#include "framework/graph/graph.h"
#include "framework/runtime/executable.h"
#include "framework/runtime/plan_cache.h"
#include "framework/runtime/run_gate.h"
#include "framework/runtime/variable_store.h"

namespace belfry {

struct SessionOptions {
  bool allow_soft_placement = false;                    // fall back to a device that exists, and say so in the log
  bool log_device_placement = false;                    // the device mapping, and a line a node
  std::ostream* placement_log = nullptr;                // borrowed; null: standard output
  absl::Duration timeout = absl::InfiniteDuration();    // of every step
  CollectiveFactory collectives = MakeLocalCollective;  // how towers meet
  bool replay = true;                         // a steady step of asynchronous devices is recorded and replayed
  bool fuse = true;                           // nodes may run as one, or change places: CompileOptions::fuse
  int64_t fuse_elementwise_from = kFuseFrom;  // element-wise nodes, if their results have at least so many elements
  // A step of several CPU devices whose work is estimated to be shorter runs on the caller's thread instead of one for
  // each device, for handing it over would take longer. The results are the same.
  absl::Duration short_step = absl::Microseconds(15);
  // Looking for a fault: every op is waited for, so that what goes wrong on a GPU is reported with the op that did it;
  // and every float result is looked at, so that the first op with a NaN or an infinity ends the step, for which
  // element-wise ops run one by one. Both are slow, and nothing is replayed.
  bool debug_sync = false, check_numerics = false;
  Recompute recompute = Recompute::kNone;     // what the backward pass computes again
  size_t plan_cache_bytes = size_t{1} << 30;  // what plans that are not running may hold on to: PlanCache
  std::string dump_plan;                      // a directory that gets step_<n> for the n-th step compiled:
                                              // CompileOptions::dump_directory; empty: none
};

// A value for an output, instead of what the graph would compute.
struct Feed {
  Output output;
  Tensor value;
};

// What one feed of a prepared step will look like.
struct FeedSpec {
  Output output;
  Shape shape;  // fully known
};

class Session;

// A plan with memory of its own. Run looks nothing up, allocates nothing and, if the step uses one CPU device, takes no
// lock. One thread at a time; several may be prepared for several threads. Must not outlive its session.
class PreparedStep {
 public:
  ~PreparedStep();
  // True if Run returns before the step is done: it uses GPUs alone.
  bool asynchronous() const { return executable_->asynchronous(); }
  // True once its runs are replayed as a whole (SessionOptions::replay).
  bool replays() const;
  // Runs one step. `feeds` are in the order of Prepare's, and copied before it returns. Errors: a feed of another shape
  // or dtype than was prepared, a variable that is not initialized, whatever the kernels report, DeadlineExceeded,
  // Cancelled once the session is closed. After an error the step can be run again.
  //
  // On GPUs alone it returns once the step is enqueued, while it and the one before may be under way; what goes wrong
  // there is reported by Wait or by the next Run.
  absl::Status Run(absl::Span<const Tensor> feeds = {});
  // The same piece by piece, also if other runs are replayed, and waits for it; says when each piece ran.
  absl::Status RunTraced(absl::Span<const Tensor> feeds, StepTrace& trace);
  // Waits until the last Run is done, and reports what went wrong after it had returned: DeadlineExceeded once the time
  // of that step is over.
  absl::Status Wait();
  // Fetch `i` of the last successful Run, for which it waits; overwritten by the next. Clone() it to keep it.
  const Tensor& fetched(int i);
  const Plan& plan() const { return executable_->plan(); }

 private:
  friend class Session;
  PreparedStep(Session& session, std::unique_ptr<Executable> executable, std::vector<std::string> feed_names,
               std::vector<Tensor> fetched);
  absl::Status Check(absl::Span<const Tensor> feeds) const;
  absl::Status RunFed(absl::Span<const Tensor> feeds, StepTrace* trace);
  absl::Status CheckInitialized();
  void MarkInitialized();

  Session& session_;
  std::unique_ptr<Executable> executable_;
  std::vector<std::string> feed_names_;
  std::vector<Tensor> fetched_;
  std::vector<std::pair<std::string, VariableStorage*>> reads_, writes_;
  bool alone_ = false;        // it writes variables, or needs the device threads or the session's streams
  bool under_way_ = false;    // the last Run's fetches were not looked at yet
  absl::Time deadline_;       // of the last Run
  absl::Status unreported_;   // what fetched() met
  bool initialized_ = false;  // all of reads_ are known to be
  std::atomic<bool> busy_{false};
};

// Owns the storage of the graph's variables and a cache of plans by (feeds and their shapes, fetches, targets). The
// graph and the devices are borrowed. The graph may get more nodes between calls, not during one. Thread-safe: Runs
// that only read variables go side by side; one that writes them, or uses several devices, goes alone.
class Session {
 public:
  // Places the whole graph. Errors: what a builder of the graph reported, what Place cannot satisfy, no memory for the
  // variables.
  static absl::StatusOr<std::unique_ptr<Session>> Create(const Graph& graph, const DeviceSet& devices,
                                                         const SessionOptions& options = {});
  // Closes the session.
  ~Session();

  // Computes `fetches` and runs `targets`, given `feeds`; returns the fetches in order. Besides what PreparedStep::Run
  // reports: nothing asked for, an unknown Output, a placeholder that is not fed, shapes that do not fit.
  absl::StatusOr<std::vector<Tensor>> Run(absl::Span<const Feed> feeds, absl::Span<const Output> fetches,
                                          absl::Span<const Node* const> targets = {});
  absl::StatusOr<std::vector<Tensor>> Run(absl::Span<const Output> fetches) { return Run({}, fetches); }
  absl::Status RunTarget(const Node* target, absl::Span<const Feed> feeds = {});
  // The handle for a step that is run again and again.
  absl::StatusOr<std::unique_ptr<PreparedStep>> Prepare(absl::Span<const FeedSpec> feeds,
                                                        absl::Span<const Output> fetches,
                                                        absl::Span<const Node* const> targets = {});
  // The plan that Prepare would run, without its memory, and what memory it would need on each device, the variables
  // that the session holds included. Errors: Prepare's, but for lack of memory.
  struct Explanation {
    std::shared_ptr<const Plan> plan;
    std::vector<DeviceMemoryReport> memory;  // by device
  };
  absl::StatusOr<Explanation> Explain(absl::Span<const FeedSpec> feeds, absl::Span<const Output> fetches,
                                      absl::Span<const Node* const> targets = {});
  // Cancels running steps, without waiting for them; every later call fails with Cancelled "Session has been closed."
  void Close();

  // The value of a variable, and a new one; a step sees it whole or not at all. Errors: not initialized; wrong shape or
  // dtype.
  absl::StatusOr<Tensor> ReadVariable(const Variable& variable);
  absl::Status WriteVariable(const Variable& variable, const Tensor& value);
  // The same for several at once: no step runs between the first and the last. A tensor in `values` that has the
  // variable's dtype and shape already, is written to, memory that others share included; any other is made anew. If
  // one variable does not fit, or is not initialized, nothing is copied. REQUIRES: as many values as variables.
  absl::Status ReadVariables(absl::Span<const Variable> variables, absl::Span<Tensor> values);
  absl::Status WriteVariables(absl::Span<const Variable> variables, absl::Span<const Tensor> values);
  // Those of the graph's variables that are initialized, in the order of their making.
  absl::StatusOr<std::vector<Variable>> InitializedVariables();

  const Graph& graph() const { return graph_; }
  const DeviceSet& devices() const { return devices_; }
  // The device of a node.
  const Device& DeviceOf(const Node& node);

 private:
  friend class PreparedStep;
  Session(const Graph& graph, const DeviceSet& devices, const SessionOptions& options);
  absl::Status Extend() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<CompiledPlan> CompileNow(const ProgramRequest& request, const std::string& dump_directory)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<CompiledPlan> FindOrCompile(const ProgramRequest& request, const std::string& key)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<std::unique_ptr<Executable>> MakeExecutable(const ProgramRequest& request, const std::string& key)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<std::unique_ptr<PreparedStep>> Make(const ProgramRequest& request, const std::string& key)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<VariableStorage*> StorageOf(const Variable& variable);
  absl::StatusOr<std::vector<VariableStorage*>> StorageOf(absl::Span<const Variable> variables);

  const Graph& graph_;
  const DeviceSet& devices_;
  const SessionOptions options_;
  Mutex mutex_;  // compiling and the cache; never held while a step runs
  Placement placement_ ABSL_GUARDED_BY(mutex_);
  VariableStore variables_ ABSL_GUARDED_BY(mutex_);
  DeviceThreads threads_ ABSL_GUARDED_BY(mutex_);
  DeviceQueues queues_;  // guarded by gate_
  PlanCache plans_ ABSL_GUARDED_BY(mutex_);
  int compiled_ ABSL_GUARDED_BY(mutex_) = 0;  // plans so far
  RunGate gate_;                              // guards the variables' bytes and flags, and the device threads
  std::atomic<uint64_t> runs_{0};
  std::atomic<bool> closed_{false};
};

}  // namespace belfry
