// What a step is compiled to: which kernel runs on which device, in which order, on which stream, reading and writing
// which bytes, waiting for which event.
#pragma once

#include <string>
#include <vector>

#include "framework/compiler/program.h"
#include "framework/device/device_set.h"

namespace belfry {

// One entry of a stream's program.
struct Instruction {
  enum class Kind : uint8_t {
    kRun,         // the kernel, copy or transfer of node `index`
    kCollective,  // node `index` meets the other participants
    kWait,        // for event `index`
    kRecord,      // event `index`
  };
  Kind kind;
  int index;
};

// What one stream of one device does in a step, in order.
struct StreamProgram {
  int device = 0;
  StreamKind kind = StreamKind::kCompute;
  std::vector<Instruction> instructions;
};

// Where an output's bytes are.
struct Storage {
  enum class Kind : uint8_t {
    kNowhere,   // nobody looks at them
    kArena,     // in the device's arena
    kVariable,  // in the storage of the variable that node `node` stands for
    kConstant,  // in the value of the constant node `node`
  };
  Kind kind = Kind::kNowhere;
  int node = -1;
  size_t offset = 0;  // bytes from the beginning of that memory
};

// A range of a device's arena: an output with those that take its place, or a kernel's workspace.
struct MemoryBlock {
  int device = 0;
  int node = 0;
  int output = 0;  // -1: the workspace
  size_t bytes = 0;
  int start = 0, end = 0;  // nodes between which it is in use, inclusive; -1: since before the step
};

// Bytes per device, by index in the DeviceSet.
struct MemoryPlan {
  std::vector<std::vector<Storage>> outputs;  // by node, by output
  std::vector<size_t> workspace_offset;       // by node, in the arena of its device
  std::vector<size_t> arena_bytes;            // by device: the peak, and what a plan allocates
  std::vector<size_t> sum_bytes;              // by device: of all outputs and workspaces, as if nothing shared memory
  std::vector<MemoryBlock> blocks;            // what lies in the arenas, except what takes no room
};

// Results that a plan computes again instead of keeping them, to fit into CompileOptions::arena_limit. Estimates of
// time take products and convolutions by their floating-point operations, and all ops by the bytes that they move.
struct Recomputation {
  std::vector<size_t> arena_bytes;  // by device: without it; empty if the plan fits without it, or has no limit
  int nodes = 0;                    // that run again
  double flops = 0, bytes = 0;      // that these take
  double share = 0;                 // of time, relative to the step without them
};

// One tensor that moves between devices in every step.
struct TransferInfo {
  std::string tensor;
  int from = 0, to = 0;
  size_t bytes = 0;
};

// A feed of at least this many bytes is copied to an asynchronous device during the previous step, into one of two
// places there; a smaller one with its own step.
inline constexpr size_t kFedAheadBytes = size_t{1} << 16;

// Immutable once compiled; any number of Executables run it.
struct Plan {
  Program program;
  std::vector<StreamProgram> streams;  // the compute streams of the devices in use, then their collective streams
  int events = 0;
  std::vector<size_t> workspace_bytes;     // by node
  std::vector<char> in_place;              // by node: whether the kernel's outputs may lie on its inputs
  std::vector<absl::string_view> engines;  // by node: Kernel::engine
  MemoryPlan memory;
  Recomputation recomputation;
  std::vector<int> reads_before_writing;  // nodes of variables that must be initialized before the step
  std::vector<int> written;               // nodes of variables that the step writes

  std::vector<TransferInfo> Transfers() const;
  // For a person: devices, transfers, memory, then every stream's instructions with names, shapes and offsets.
  std::string ToText(const DeviceSet& devices) const;
};

// Nodes for which a stream has an instruction; the others only stand for bytes or for an order.
bool Runs(const ProgramNode& node);

// Assigns streams, waits and events to an ordered program.
void AssignStreams(Plan& plan, const DeviceSet& devices);

// Lifetimes to offsets (greedy by size, best fit: Pisarchyk and Lee, "Efficient memory management for deep neural net
// inference", 2020), an output in the place of an input where the OpDef allows it and the input is not needed any more,
// and the inputs of each collective side by side. REQUIRES: streams are assigned, workspace_bytes are filled in.
void PlanMemory(Plan& plan, int devices);

}  // namespace belfry
