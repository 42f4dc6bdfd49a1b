// A plan bound to memory, kernels and threads: what a step runs.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "framework/collective/collective.h"
#include "framework/device/device_set.h"
#include "framework/runtime/compile.h"
#include "framework/runtime/device_threads.h"
#include "framework/runtime/variable_store.h"

namespace belfry {

// What one run may wait for.
struct RunLimits {
  absl::Time deadline = absl::InfiniteFuture();
  const std::atomic<bool>* cancelled = nullptr;  // looked at between instructions; null: never
};

// One copy of a plan's arenas and kernels, so one run at a time. Making it allocates everything; running it allocates
// nothing, looks nothing up and, on a single device, wakes no thread and takes no lock.
class Executable {
 public:
  // `threads` run the streams when there are several; borrowed, as are the devices and the store's memory.
  static absl::StatusOr<std::unique_ptr<Executable>> Create(CompiledPlan compiled, const DeviceSet& devices,
                                                            VariableStore& variables, DeviceThreads& threads);

  const Plan& plan() const { return *plan_; }
  // Where feed `i` is to be written before Run, and fetch `i` to be read after it, until the next Run. Memory of
  // `device`.
  struct Slot {
    void* data = nullptr;
    TensorSpec spec;
    int device = 0;
  };
  const Slot& feed(int i) const { return feeds_[i]; }
  const Slot& fetch(int i) const { return fetches_[i]; }

  // Runs one step. `run` numbers the session's runs. The first error wins, stops every stream, and names the node, the
  // device and the user's line; afterwards the executable can be run again.
  // An error of a step that had begun to update variables says so: what it had not reached keeps its former value.
  absl::Status Run(uint64_t run, const RunLimits& limits);

 private:
  struct BoundInstruction {
    Instruction::Kind kind;
    int index;                               // node or event, for messages
    const KernelFunction* kernel = nullptr;  // kRun
    KernelContext context{};                 // kRun
    Event* event = nullptr;                  // kWait, kRecord
    bool writes = false;                     // kRun: updates a variable
    Collective* collective = nullptr;        // kCollective
    int participant = 0;                     // kCollective
  };
  struct BoundStream {
    int device = 0;
    std::unique_ptr<Stream> stream;
    std::vector<BoundInstruction> instructions;
    StreamTask task;                          // if there are several streams
    DeviceThreads::Worker* worker = nullptr;  // likewise
  };

  Executable(std::shared_ptr<const Plan> plan, const DeviceSet& devices, DeviceThreads& threads)
      : plan_(std::move(plan)), devices_(devices), threads_(threads) {}
  absl::Status Allocate();
  absl::Status Bind(VariableStore& variables);
  absl::Status BindCollectives();
  void BindThreads();
  void* Address(Value value, VariableStore& variables) const;
  absl::Status RunStream(BoundStream& stream, uint64_t run, const RunLimits& limits);
  absl::Status RunAll(uint64_t run, const RunLimits& limits);
  absl::Status Explain(const absl::Status& status, const BoundStream& stream, const BoundInstruction& at) const;
  void Fail(absl::Status status);

  const std::shared_ptr<const Plan> plan_;
  const DeviceSet& devices_;
  DeviceThreads& threads_;
  std::vector<Kernel> kernels_;                   // by node
  std::vector<DeviceMemory> arenas_;              // by device
  std::vector<std::vector<const void*>> inputs_;  // by node: what KernelContext points at
  std::vector<std::vector<void*>> outputs_;       // by node
  std::vector<std::unique_ptr<Event>> events_;
  std::vector<std::unique_ptr<Collective>> collectives_;
  std::vector<BoundStream> streams_;
  std::vector<Slot> feeds_, fetches_;
  uint32_t turn_ = 0;                  // runs of this executable: what events count
  uint64_t run_ = 0;                   // of the current run, for the tasks
  const RunLimits* limits_ = nullptr;  // likewise
  std::atomic<bool> wrote_{false};     // the current run has begun to update variables
  std::atomic<bool> failed_{false};
  absl::Status error_;  // written once, by whoever sets failed_
};

}  // namespace belfry
