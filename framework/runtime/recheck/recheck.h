// Finding faults of the hardware that raise no error: wrong results of kernels, and bits that change in memory.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "framework/base/machine/team_cores.h"
#include "framework/base/status.h"
#include "framework/compiler/recheck.h"
#include "framework/runtime/binding.h"

namespace belfry {

// The checksum of a result, from the run of its node to its last reader's.
struct ResultGuard {
  int node = 0, output = 0;
  const void* data = nullptr;
  size_t bytes = 0;
  uint32_t run = 0;  // RunState::step_index when it was made; 0: never
  uint64_t checksum = 0;
};

struct GuardedVariable {
  const Node* variable = nullptr;
  VariableStorage* storage = nullptr;
};

// The checks at one instruction.
struct RecheckedInstruction {
  struct Copy {
    void* to;
    const void* from;
    size_t bytes;
  };
  struct Result {
    const void *first, *second;
    TensorSpec spec;
    int output;  // of the node; -1 - i: its input i, a variable that it updates
  };

  int turn = -1;                     // RecheckPlan::turn
  std::vector<const void*> inputs;   // of the computation that comes first, in scratch memory
  std::vector<void*> outputs;        // of it
  std::vector<Copy> copies;          // to its inputs: variables that the node updates
  std::vector<Result> results;       // empty: it is not computed twice
  std::vector<ResultGuard*> made;    // after it
  std::vector<ResultGuard*> looked;  // at before it
  std::vector<GuardedVariable> updated;
  std::vector<GuardedVariable> read;  // first by this node, and updated by none of the plan

  bool looks() const { return !looked.empty() || !updated.empty(); }
};

// One value of a collective that all ranks get.
struct CommonResult {
  std::vector<const ResultGuard*> ranks;  // of this process
};

// The checks of one lane. A run allocates nothing.
class LaneRecheck {
 public:
  // `steps`: of a cycle. `found` is set with the first difference. Borrows all but `cores`.
  LaneRecheck(const Plan& plan, const Lane& lane, int steps, TeamCores cores, std::atomic<bool>& found);

  RecheckedInstruction& at(size_t position) { return instructions_[position]; }
  // False: Before and After would do nothing.
  bool Concerns(size_t position, const RunState& state) const {
    const RecheckedInstruction& at = instructions_[position];
    return at.looks() || IsTurn(at, state);
  }
  // To be called before an instruction runs. Looks at checksums and, if it is the node's turn, computes it in scratch
  // memory, and lets the instruction run on other cores, where there are some. Errors: those of the kernel; DataLoss.
  absl::Status Before(size_t position, const RunState& state);
  // To be called after Before and the instruction, with its status, which it returns unless that is OK. Compares, and
  // makes checksums. DataLoss, with the first element that differs.
  absl::Status After(size_t position, const RunState& state, const absl::Status& status);
  // Lets the threads run where they could before Before. After also does so.
  void RestoreCores() { cores_.Restore(); }

 private:
  bool IsTurn(const RecheckedInstruction& at, const RunState& state) const {
    return at.turn == static_cast<int>(state.step_index % steps_);
  }
  absl::Status Compute(size_t position, const RunState& state);
  absl::Status Compare(const RecheckedInstruction& at);
  absl::Status Look(const GuardedVariable& variable);
  absl::Status Found(const std::string& what);

  const Plan& plan_;
  const Lane& lane_;
  const uint32_t steps_;
  std::atomic<bool>& found_;
  TeamCores cores_;
  std::vector<RecheckedInstruction> instructions_;  // by position
};

// Runs an instruction by `run`, with its lane's checks.
template <class F>
absl::Status RunRechecked(const Lane& lane, size_t position, const RunState& state, const F& run) {
  if (lane.recheck == nullptr || !lane.recheck->Concerns(position, state)) return run();
  // Kernels of users may throw.
  const absl::Cleanup restore = [&lane] { lane.recheck->RestoreCores(); };
  RETURN_IF_ERROR(lane.recheck->Before(position, state));
  return lane.recheck->After(position, state, run());
}

// The checks of one executable.
class Recheck {
 public:
  // Plans the checks, and gives them to the lanes. `share`: PlanRecheck. `short_step`: SessionOptions::short_step.
  // Errors: Unimplemented if a lane is asynchronous; ResourceExhausted.
  static absl::StatusOr<std::unique_ptr<Recheck>> Create(BoundPlan& bound, VariableStore& variables, double share,
                                                         absl::Duration short_step);

  // To be called after a run of all lanes. DataLoss if ranks of a collective have other results
  // than the first.
  absl::Status Finish(const RunState& state);
  // True once a difference was found. Thread-safe.
  bool found() const { return found_.load(std::memory_order_relaxed); }

 private:
  friend class RecheckBinder;
  Recheck(const BoundPlan& bound, RecheckPlan turns)
      : plan_(bound.plan), devices_(bound.devices), turns_(std::move(turns)) {}

  const std::shared_ptr<const Plan> plan_;
  const DeviceSet& devices_;
  const RecheckPlan turns_;
  std::atomic<bool> found_{false};
  std::vector<DeviceMemory> scratch_;                // by device
  std::vector<std::unique_ptr<LaneRecheck>> lanes_;  // as in BoundPlan
  std::vector<std::unique_ptr<ResultGuard>> guards_;
  std::vector<CommonResult> common_;
};

}  // namespace belfry
