// A session: runs a graph on devices.
#pragma once

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
#include "framework/collective/collective.h"
#include "framework/compiler/compile.h"
#include "framework/compiler/memory_report.h"
#include "framework/compiler/place.h"
#include "framework/device/device_set.h"
#include "framework/graph/graph.h"
#include "framework/runtime/device_queues.h"
#include "framework/runtime/device_threads.h"
#include "framework/runtime/plan_cache.h"
#include "framework/runtime/prepared_step.h"
#include "framework/runtime/result_observer.h"
#include "framework/runtime/session_state.h"
#include "framework/runtime/variable_store.h"

namespace belfry {

struct SessionOptions {
  bool allow_soft_placement = false;                    // fall back to an existing device, and log it
  bool log_device_placement = false;                    // print the device mapping, and one line per node
  std::ostream* placement_log = nullptr;                // borrowed; null: standard output
  absl::Duration timeout = absl::InfiniteDuration();    // of every step
  CollectiveFactory collectives = MakeLocalCollective;  // how towers average
  bool replay = true;                                   // capture a steady step of asynchronous devices, and replay it
  bool fuse = true;                                     // merge and move nodes: CompileOptions::fuse
  int64_t fuse_elementwise_from = kFuseFrom;  // fuse element-wise nodes with results of at least this many elements
  // A step of several CPU devices that is estimated to be shorter runs on the caller's thread instead of one thread per
  // device, since handing it over would take longer. The results are the same.
  absl::Duration short_step = absl::Microseconds(15);
  // For debugging. debug_sync waits for every op, so that a GPU error is reported with the op that caused it.
  // check_numerics checks every float result and ends the step at the first op that gives a NaN or an infinity;
  // element-wise ops are not fused. Both are slow, and prevent replay.
  bool debug_sync = false, check_numerics = false;
  Recompute recompute = Recompute::kNone;     // forward values that the backward pass computes again
  size_t arena_limit = 0;                     // of each step: CompileOptions::arena_limit
  Fold fold = Fold::kSmall;                   // what is computed when a step is compiled
  size_t plan_cache_bytes = size_t{1} << 30;  // memory of idle plans: PlanCache
  bool verify_plan = false;                   // CompileOptions::verify
  std::string dump_plan = {};                 // directory for step_<n> of the n-th step compiled, or empty:
                                              // CompileOptions::dump_directory
  // The share of the ops of each step, from 0 to 1, that are computed twice, to find faults of the hardware that raise
  // no error: in 1 / recheck runs of a step, rounded up, each op once. The results are compared by bits, and kept with
  // a checksum until they were last read, as variables are until their next update. A difference ends the step with
  // DataLoss (docs/audit.md). CPU devices only.
  double recheck = 0;
};

// A value for an output, used instead of the one that the graph would compute.
struct Feed {
  Output output;
  Tensor value;
};

// The shape of one feed of a prepared step.
struct FeedSpec {
  Output output = {};
  Shape shape = {};  // fully known
};

// Owns the memory of the graph's variables and a cache of plans by (feeds and their shapes, fetches, targets). Borrows
// the graph and the devices. Nodes may be added to the graph between calls, not during one. Thread-safe: Runs that only
// read variables go side by side; a Run that writes them, or uses several devices, is exclusive.
class Session {
 public:
  // Places the whole graph. Errors: those of the graph's builders and of Place; ResourceExhausted if the variables do
  // not fit.
  static absl::StatusOr<std::unique_ptr<Session>> Create(const Graph& graph, const DeviceSet& devices,
                                                         const SessionOptions& options = {});
  // Closes the session.
  ~Session();

  // Computes `fetches` and runs `targets`, given `feeds`; returns the fetches in order. Errors: those of
  // PreparedStep::Run, no fetch and no target, an unknown Output, a placeholder without a feed, shapes that do not
  // match.
  absl::StatusOr<std::vector<Tensor>> Run(absl::Span<const Feed> feeds, absl::Span<const Output> fetches,
                                          absl::Span<const Node* const> targets = {});
  absl::StatusOr<std::vector<Tensor>> Run(absl::Span<const Output> fetches) { return Run({}, fetches); }
  absl::Status RunTarget(const Node* target, absl::Span<const Feed> feeds = {});
  // Compiles a step that is to run again and again.
  absl::StatusOr<std::unique_ptr<PreparedStep>> Prepare(absl::Span<const FeedSpec> feeds,
                                                        absl::Span<const Output> fetches,
                                                        absl::Span<const Node* const> targets = {});
  // Compiles the step that Run would run, and gives it its memory, so that an error shows now and Run need not compile.
  // It counts against SessionOptions::plan_cache_bytes, and may be dropped in favour of others. Errors: those of
  // Prepare.
  absl::Status Reserve(absl::Span<const FeedSpec> feeds, absl::Span<const Output> fetches,
                       absl::Span<const Node* const> targets = {});
  // The plan that Prepare would run, without its memory, and the memory that it would need on each device, including
  // the session's variables. Errors: those of Prepare except lack of memory.
  struct Explanation {
    std::shared_ptr<const Plan> plan;
    std::vector<DeviceMemoryReport> memory;  // by device
  };
  absl::StatusOr<Explanation> Explain(absl::Span<const FeedSpec> feeds, absl::Span<const Output> fetches,
                                      absl::Span<const Node* const> targets = {});
  // Changes SessionOptions::arena_limit for the steps that are compiled from now on.
  void LimitArenas(size_t bytes);
  // Lets `observer` see the results of all nodes of the steps that are prepared from now on. The plans are the same, so
  // the results are. Slow, and prevents replay. Null: no longer.
  void Observe(ResultObserver observer);
  // True once a step was ended by a difference (SessionOptions::recheck): variables may be wrong. Thread-safe.
  bool corrupted() const { return state_.corrupted.load(); }
  // Cancels running steps, without waiting for them; every later call fails with Cancelled "Session has been closed."
  void Close();

  // Read and write the value of a variable, between steps. Errors: not initialized; wrong shape or dtype.
  absl::StatusOr<Tensor> ReadVariable(const Variable& variable);
  absl::Status WriteVariable(const Variable& variable, const Tensor& value);
  // The same for several variables, with no step in between. ReadVariables writes to a tensor in `values` in place if
  // it has the variable's dtype and shape, even if its memory is shared, and allocates any other. If one variable does
  // not match, or is not initialized, nothing is copied. A moving average that is as its variable, as before the
  // first step or where no step changes the variable, is written with it; likewise a variable that began as another
  // (BeginAs). REQUIRES: as many values as variables.
  absl::Status ReadVariables(absl::Span<const Variable> variables, absl::Span<Tensor> values);
  absl::Status WriteVariables(absl::Span<const Variable> variables, absl::Span<const Tensor> values);
  // The graph's initialized variables except transient ones, in order of creation.
  absl::StatusOr<std::vector<Variable>> InitializedVariables();

  const Graph& graph() const { return graph_; }
  const DeviceSet& devices() const { return devices_; }
  double recheck() const { return options_.recheck; }  // SessionOptions::recheck
  // The device of a node. Errors, for a node that was added since the last call: those of Create.
  absl::StatusOr<const Device*> DeviceOf(const Node& node);

 private:
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
  absl::StatusOr<std::unique_ptr<PreparedStep>> MakeWithinMemory(const ProgramRequest& request, const std::string& key)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void PutBack(const std::string& key, std::unique_ptr<PreparedStep> step) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<bool> AreEqual(const VariableStorage& a, const VariableStorage& b, size_t bytes);
  absl::StatusOr<VariableStorage*> StorageOf(const Variable& variable);
  absl::StatusOr<std::vector<VariableStorage*>> StorageOf(absl::Span<const Variable> variables);

  const Graph& graph_;
  const DeviceSet& devices_;
  const SessionOptions options_;
  SessionState state_;
  Mutex mutex_;  // guards compilation and the cache; not held while a step runs or is destroyed
  Placement placement_ ABSL_GUARDED_BY(mutex_);
  VariableStore variables_ ABSL_GUARDED_BY(mutex_);
  DeviceThreads threads_ ABSL_GUARDED_BY(mutex_);
  DeviceQueues queues_;  // guarded by state_.gate
  PlanCache plans_ ABSL_GUARDED_BY(mutex_);
  int compiled_ ABSL_GUARDED_BY(mutex_) = 0;  // number of plans so far
  size_t arena_limit_ ABSL_GUARDED_BY(mutex_);
  ResultObserver observer_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace belfry
