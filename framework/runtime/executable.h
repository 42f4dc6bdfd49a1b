// A plan bound to memory, kernels and threads: what a step runs.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "framework/base/tensor.h"
#include "framework/collective/collective.h"
#include "framework/compiler/compile.h"
#include "framework/device/device_set.h"
#include "framework/runtime/device_queues.h"
#include "framework/runtime/device_threads.h"
#include "framework/runtime/step_trace.h"
#include "framework/runtime/variable_store.h"

namespace belfry {

// What one run may wait for.
struct RunLimits {
  absl::Time deadline = absl::InfiniteFuture();
  const std::atomic<bool>* cancelled = nullptr;  // looked at between instructions; null: never
};

// One copy of a plan's arenas and kernels, so one run at a time. Making it allocates everything; running it allocates
// nothing, looks nothing up and, on a single CPU device, wakes no thread and takes no lock.
//
// The streams of a plan are served by lanes: a CPU stream is a lane, and so are all streams of an asynchronous device
// together, since they only enqueue. One lane runs on the caller's thread, several on threads of their own, but all on
// the caller's when the step is shorter than a hand-over to another thread takes. A run on
// asynchronous devices alone returns once it is enqueued, at most one run before it still being under way; after some
// such runs one is recorded and from then on replayed as a whole, if the devices and collectives can. After a failure
// that took away what was recorded, all that begins anew.
class Executable {
 public:
  struct Environment {  // borrowed
    const DeviceSet& devices;
    VariableStore& variables;
    DeviceThreads& threads;
    DeviceQueues& queues;
    const CollectiveFactory& collectives;
    bool replay;                      // record a steady step, and replay it
    absl::Duration short_step;        // SessionOptions
    bool debug_sync, check_numerics;  // SessionOptions
  };
  static absl::StatusOr<std::unique_ptr<Executable>> Create(CompiledPlan compiled, const Environment& environment);
  // Waits for its last run.
  ~Executable();

  const Plan& plan() const { return *plan_; }
  const TensorSpec& feed(int i) const { return feeds_[i].spec; }
  const TensorSpec& fetch(int i) const { return fetches_[i].spec; }
  // True if it uses asynchronous devices, so that one run of the session at a time may use it.
  bool asynchronous() const { return asynchronous_; }
  // True once runs are replayed.
  bool replays() const { return recorded_ != nullptr; }

  // Runs one step. `run` numbers the session's runs. `feeds` fit feed(i), and are copied before it returns. The first
  // error wins, stops every lane, and names the node, the device and the user's line; afterwards the executable can be
  // run again. An error of work that was enqueued by an earlier run is reported, too, and then this run is none.
  // An error of a step that had begun to update variables says so: what it had not reached keeps its former value, of a
  // variable that an element-wise pass updates perhaps a part.
  // `trace`: null, or where to note when what ran; then it is not replayed, and is done on return.
  absl::Status Run(uint64_t run, absl::Span<const Tensor> feeds, const RunLimits& limits, StepTrace* trace);
  // Waits until the devices are done with the last run; a thread that is in no run of the session may.
  absl::Status AwaitDevices(absl::Time deadline);
  // Waits for the last run, and copies the fetches of the last one that did not fail. REQUIRES: tensors that fit
  // fetch(i).
  absl::Status Fetch(absl::Time deadline, std::vector<Tensor>& fetches);

 private:
  static constexpr int kPlainRuns = 2;  // before one is recorded: they allocate what libraries allocate

  // What is copied between the host and a device before or after a run.
  struct Slot {
    void* data = nullptr;  // memory of `device`
    TensorSpec spec;
    int device = 0;
    DeviceMemory staged[2];  // of an asynchronous device: what is copied from or to, in turn
    DeviceMemory ahead[2];   // of a large feed: on the device, in turn
  };
  struct BoundInstruction {
    Instruction::Kind kind;
    int index;                               // node or event, for messages
    int program = 0;                         // of Plan::streams
    Stream* stream = nullptr;                // of the lane
    const KernelFunction* kernel = nullptr;  // kRun
    KernelContext context{};                 // kRun
    Event* event = nullptr;                  // kWait, kRecord
    bool writes = false;                     // kRun: updates a variable
    Collective* collective = nullptr;        // kCollective
    int participant = 0;                     // kCollective
    int participants = 0;                    // kCollective
  };
  struct Lane;
  // What one thread that serves all lanes does next.
  struct Turn {
    Lane* lane = nullptr;
    size_t position = 0;           // of the instruction in the lane
    std::vector<Stream*> streams;  // of a collective: those of all participants, which come to it together
  };
  struct Lane {
    int device = 0;
    bool asynchronous = false;
    std::vector<std::unique_ptr<Stream>> own;    // those of a CPU device, and what it copies from others with
    std::vector<Stream*> streams;                // the first computes
    std::unique_ptr<Event> begun;                // of an asynchronous device: where its streams part
    std::vector<std::unique_ptr<Event>> joined;  // and, by stream after the first, where they meet again
    std::vector<BoundInstruction> instructions;
    Stream* copy_in = nullptr;                     // if it has large feeds
    std::unique_ptr<Event> fed;                    // likewise: they are there
    std::vector<const BoundInstruction*> checked;  // those whose kernels find errors later, in order
    std::unique_ptr<StreamClock> clock;            // once it was traced: two stamps an instruction
    std::atomic<size_t> position{0};               // if it is watched: the instruction that it has come to
    std::atomic<int64_t> since{0};                 // and when that was, in nanoseconds since 1970
    StreamTask task;                               // if there are several lanes
    DeviceThreads::Worker* worker = nullptr;       // likewise
  };

  Executable(std::shared_ptr<const Plan> plan, const Environment& environment)
      : plan_(std::move(plan)), environment_(environment), devices_(environment.devices), queues_(environment.queues) {}
  absl::Status Allocate();
  absl::Status UploadConstants();
  absl::Status BindSlots();
  absl::Status BindLanes();
  absl::Status BindFeeds();
  absl::StatusOr<Lane*> LaneOf(int device, StreamKind kind);
  absl::Status BindInstruction(Lane& lane, Stream* stream, const Instruction& instruction, int program);
  absl::Status BindCollectives();
  void BindThreads();
  absl::StatusOr<std::vector<Turn>> OrderForOneThread() const;
  absl::Status BindOneThread();
  void* Address(Value value) const;

  absl::Status AwaitRoom(absl::Time deadline);
  absl::Status Errors(const Lane& lane) const;
  absl::Status AwaitDevice(int device, uint32_t run, absl::Time deadline);
  absl::Status Begin(Lane& lane, absl::Time deadline);
  absl::Status RunLane(Lane& lane, uint64_t run, const RunLimits& limits);
  absl::Status RunOnOneThread(uint64_t run, const RunLimits& limits);
  absl::Status End(Lane& lane, absl::Time deadline);
  absl::Status RunAll(uint64_t run, const RunLimits& limits);
  absl::Status AwaitEnd(absl::Time deadline);
  uint64_t Losses() const;
  absl::Status CheckLosses();
  absl::Status RunInstruction(BoundInstruction& at, uint64_t run, absl::Time deadline);
  void WatchFromHere();
  absl::Status PrepareTrace();
  absl::Status FinishTrace(StepTrace& trace);
  absl::Status RunWatched(Lane& lane, size_t position, uint64_t run, absl::Time deadline);
  absl::Status CheckNumerics(Lane& lane, const BoundInstruction& at) const;
  std::string Positions() const;
  std::string PositionOf(const Lane& lane, absl::Time now) const;
  absl::Status CopyFeeds(Lane& lane, absl::Time deadline);
  absl::Status CopyFetches(Lane& lane);
  bool CanCapture() const;
  absl::Status TryToRecord(absl::Time deadline);
  void ForgetEndedRecording();
  absl::StatusOr<std::shared_ptr<CapturedStep>> Record();
  absl::Status RecordInstructions(std::vector<std::unique_ptr<Event>>& joined);
  absl::Status Replay(absl::Time deadline);
  absl::Status Explain(const absl::Status& status, const Lane& lane, const BoundInstruction& at) const;
  absl::Status OnDevice(const absl::Status& status, int device) const;
  void Fail(absl::Status status);
  void Recover();

  const std::shared_ptr<const Plan> plan_;
  const Environment environment_;
  const DeviceSet& devices_;
  DeviceQueues& queues_;
  std::vector<Kernel> kernels_;                   // by node
  std::vector<DeviceMemory> arenas_;              // by device
  std::vector<DeviceMemory> constants_;           // by node, of those whose device does not see the host's memory
  std::vector<std::vector<const void*>> inputs_;  // by node: what KernelContext points at
  std::vector<std::vector<void*>> outputs_;       // by node
  std::vector<std::unique_ptr<Event>> events_;
  std::vector<std::unique_ptr<Collective>> collectives_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  std::vector<Turn> turns_;  // of a step that one thread runs faster than several; else empty
  int one_thread_runs_ = 0;
  std::vector<Slot> feeds_, fetches_;
  bool asynchronous_ = false, mixed_ = false;  // some lanes are; and some are not
  int until_recording_ = kPlainRuns;           // runs; negative: never
  std::shared_ptr<CapturedStep> recorded_;        // by the first lane's first stream; null: runs are not replayed. Goes
                                               // before the collectives in it
  uint32_t turn_ = 0;                          // runs of this executable: what events count
  uint32_t ran_ = 0;                           // the last one that did not fail
  uint64_t run_ = 0;                           // of the current run, for the tasks
  const RunLimits* limits_ = nullptr;          // likewise
  bool under_way_ = false;                     // a run was enqueued, and nobody has waited for its end
  uint64_t losses_ = 0;                        // of the collectives, before the runs under way
  std::vector<uint32_t> runs_;                 // by device: of DeviceQueues, before the current run
  bool traced_ = false, watched_ = false;      // the current run is
  std::atomic<bool> wrote_{false};             // the current run has begun to update variables
  std::atomic<bool> failed_{false};
  absl::Status error_;  // written once, by whoever sets failed_
};

}  // namespace belfry
