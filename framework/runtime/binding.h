// A plan bound to memory, kernels, streams and threads.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/collective/collective.h"
#include "framework/compiler/compile.h"
#include "framework/device/device_set.h"
#include "framework/runtime/device_queues.h"
#include "framework/runtime/device_threads.h"
#include "framework/runtime/instruction.h"
#include "framework/runtime/variable_store.h"

namespace belfry {

class LaneRecheck;  // runtime/recheck/recheck.h

// A feed or a fetch, and the memory through which it is copied between the host and its device.
struct HostCopy {
  void* data = nullptr;  // in the memory of `device`
  void* own = nullptr;   // the same, before the program gave memory of its own
  TensorSpec spec;
  int device = 0;
  DeviceMemory staged[2];        // asynchronous device: host memory, used by alternate runs
  DeviceMemory ahead[2];         // large feed: device memory, used by alternate runs
  std::optional<void*> program;  // memory of the program (host_memory.h)
  bool in_place = false;         // `data` is that
};

// Consecutive kernels of a lane, all on one stream, that are replayed as one graph.
struct Piece {
  size_t begin = 0, end = 0;  // instructions [begin, end)
  bool writes = false;        // one of them updates a variable
  std::unique_ptr<CapturedWork> work;
};

// Instructions that one thread issues in order: from one CPU stream, or from all streams of an asynchronous device,
// which only enqueue.
struct Lane {
  int device = 0;
  bool asynchronous = false;
  std::vector<std::unique_ptr<Stream>> owned;    // a CPU device's stream, and streams that it copies from others with
  std::vector<Stream*> streams;                  // the first one computes
  std::unique_ptr<Event> begun;                  // asynchronous device: where the other streams fork off the first
  std::vector<std::unique_ptr<Event>> rejoined;  // by stream after the first: where it joins the first again
  std::vector<BoundInstruction> instructions;
  Stream* copy_in = nullptr;                     // for large feeds; null if there are none
  std::unique_ptr<Event> fed;                    // the large feeds are on the device
  std::vector<const BoundInstruction*> checked;  // kernels that report errors after the step, in order
  DeviceThreads::Worker* worker = nullptr;       // null: the only lane, which the caller's thread serves

  LaneRecheck* recheck = nullptr;  // null: nothing is computed again

  // State, which runs change.
  std::vector<Piece> pieces;           // ascending; empty unless the step is replayed in pieces (StepCapture)
  StreamTask task;                     // what `worker` runs
  std::unique_ptr<StreamClock> clock;  // null until the first traced run; two stamps per instruction
  std::atomic<size_t> position{0};     // watched runs: the instruction being issued
  absl::Status status;                 // of the last run by `worker`
  std::atomic<int64_t> since{0};       // watched runs: when it was, in ns of SteadyNow
};

// Everything that a step touches. Nothing here changes after binding except the state of lanes, so instructions point
// into it freely; moving it keeps the addresses of all elements. Serves one run at a time.
struct BoundPlan {
  std::shared_ptr<const Plan> plan;
  const DeviceSet& devices;
  DeviceQueues& queues;
  std::vector<Kernel> kernels;                   // by node
  std::vector<DeviceMemory> arenas;              // by device
  std::vector<DeviceMemory> constants;           // by node; empty where the device reads host memory
  std::vector<std::vector<const void*>> inputs;  // by node: KernelContext points at these
  std::vector<std::vector<void*>> outputs;       // by node
  std::vector<std::unique_ptr<Event>> events;
  std::vector<std::unique_ptr<Collective>> collectives;
  std::vector<std::unique_ptr<Lane>> lanes;
  std::vector<HostCopy> feeds, fetches;
  bool asynchronous = false;  // at least one lane is
  bool mixed = false;         // and at least one is not
};

// Borrowed for the life of the bound plan, except `collectives`.
struct BindingEnvironment {
  const DeviceSet& devices;
  VariableStore& variables;
  DeviceQueues& queues;
  const CollectiveFactory& collectives;
};

// Allocates all memory of a step, uploads its constants, and makes its streams, events and collectives. Its lanes have
// no threads yet.
// Errors: ResourceExhausted, with the device; whatever the collectives report.
absl::StatusOr<BoundPlan> Bind(CompiledPlan compiled, const BindingEnvironment& environment);

}  // namespace belfry
