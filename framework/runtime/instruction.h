// One instruction of a stream, bound to its kernel, event or collective.
#pragma once

#include <atomic>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "framework/collective/collective.h"
#include "framework/compiler/plan.h"
#include "framework/device/device.h"

namespace belfry {

// The run in progress. Set before the lanes start, and shared by them.
struct RunState {
  uint64_t run = 0;         // number among the session's runs, from which kernels draw
  uint32_t step_index = 0;  // number among the runs and captures of the executable, which events count
  int place = 0;            // which of the two staging places of each feed and fetch is in use
  absl::Time deadline = absl::InfiniteFuture();
  const std::atomic<bool>* cancelled = nullptr;  // polled between instructions; null: the run cannot be cancelled
  std::atomic<bool> wrote{false};                // a kernel that updates variables has begun

  bool is_cancelled() const { return cancelled != nullptr && cancelled->load(std::memory_order_relaxed); }
};

struct BoundInstruction {
  Instruction::Kind kind;
  int index;                               // node or event, for messages
  int program = 0;                         // index into Plan::streams
  Stream* stream = nullptr;                // of the lane
  const KernelFunction* kernel = nullptr;  // kRun
  KernelContext context{};                 // kRun
  Event* event = nullptr;                  // kWait, kRecord
  bool writes = false;                     // kRun: updates a variable
  Collective* collective = nullptr;        // kCollective
  int participant = 0;                     // kCollective
  int participants = 0;                    // kCollective

  bool uses_event() const { return kind == Instruction::Kind::kWait || kind == Instruction::Kind::kRecord; }
};

// Runs it on a CPU device, or enqueues it. Does not allocate, look up or lock.
inline absl::Status RunInstruction(BoundInstruction& at, RunState& state) {
  switch (at.kind) {
    case Instruction::Kind::kRun:
      at.context.run = state.run;
      if (at.writes) state.wrote.store(true, std::memory_order_relaxed);
      return (*at.kernel)(at.context);
    case Instruction::Kind::kCollective:
      return at.collective->Run(at.participant, *at.stream, state.step_index, state.deadline);
    case Instruction::Kind::kWait: return at.stream->Wait(*at.event, state.step_index, state.deadline);
    case Instruction::Kind::kRecord: at.stream->Record(*at.event, state.step_index);
  }
  return absl::OkStatus();
}

}  // namespace belfry
