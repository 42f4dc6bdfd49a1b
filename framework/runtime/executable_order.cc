// All lanes of a step on one thread.
#include <algorithm>
#include <utility>
#include <vector>

#include "framework/base/parallel.h"
#include "framework/base/status.h"
#include "framework/compiler/plan_report.h"
#include "framework/runtime/executable.h"

namespace belfry {
namespace {

// A kernel takes so long at least.
constexpr double kKernel = 15e-9;  // seconds
// The run that is timed, and by how much it may be longer than was estimated.
constexpr int kTimedRun = 3, kTooLong = 10;
// Of small tensors, which are in the cache.
constexpr double kFlopsPerSecond = 2e9, kBytesPerSecond = 1e10;

}  // namespace

// Each lane as far as it gets: to a wait for what another lane has not recorded yet, or to a collective that another
// participant has not reached.
absl::StatusOr<std::vector<Executable::Turn>> Executable::OrderForOneThread() const {
  std::vector<Turn> turns;
  std::vector<size_t> next(lanes_.size(), 0);
  std::vector<bool> recorded(events_.size(), false);
  const auto at_collective = [&](const Collective* collective) {
    std::vector<std::pair<int, size_t>> there;  // participant, lane
    for (size_t i = 0; i < lanes_.size(); ++i) {
      if (next[i] == lanes_[i]->instructions.size()) continue;
      const BoundInstruction& at = lanes_[i]->instructions[next[i]];
      if (at.collective == collective) there.emplace_back(at.participant, i);
    }
    std::sort(there.begin(), there.end());
    return there;
  };
  bool moved = true;
  while (moved) {
    moved = false;
    for (size_t i = 0; i < lanes_.size(); ++i) {
      Lane& lane = *lanes_[i];
      for (; next[i] < lane.instructions.size(); ++next[i], moved = true) {
        const BoundInstruction& at = lane.instructions[next[i]];
        if (at.kind == Instruction::Kind::kWait && !recorded[at.index]) break;
        Turn turn{.lane = &lane, .position = next[i]};
        if (at.kind == Instruction::Kind::kCollective) {
          const auto there = at_collective(at.collective);
          if (static_cast<int>(there.size()) < at.participants) break;
          for (const auto& [participant, other] : there) {
            turn.streams.push_back(lanes_[other]->instructions[next[other]].stream);
            if (other != i) ++next[other];
          }
        }
        if (at.kind == Instruction::Kind::kRecord) recorded[at.index] = true;
        turns.push_back(std::move(turn));
      }
    }
  }
  for (size_t i = 0; i < lanes_.size(); ++i) {
    if (next[i] < lanes_[i]->instructions.size()) return absl::InternalError("the lanes of a step wait for each other");
  }
  return turns;
}

absl::Status Executable::BindOneThread() {
  if (asynchronous_ || lanes_.size() < 2) return absl::OkStatus();
  const bool alike = std::all_of(lanes_.begin(), lanes_.end(), [&](auto& lane) {
    return devices_.device(lane->device).threads() == devices_.device(lanes_[0]->device).threads();
  });
  double seconds = 0;
  for (const ProgramNode& node : plan_->program.nodes) {
    if (!Runs(node)) continue;
    seconds += kKernel + FlopsOf(plan_->program, node) / kFlopsPerSecond;
    for (const TensorSpec& output : node.outputs) seconds += static_cast<double>(output.bytes()) / kBytesPerSecond;
  }
  const bool meet = std::all_of(collectives_.begin(), collectives_.end(), [](auto& each) { return each->CanCapture(); });
  if (!alike || !meet || absl::Seconds(seconds) >= environment_.short_step) return absl::OkStatus();
  ASSIGN_OR_RETURN(turns_, OrderForOneThread());
  // In this order nothing has to be waited for.
  std::erase_if(turns_, [](const Turn& turn) {
    const Instruction::Kind kind = turn.lane->instructions[turn.position].kind;
    return kind == Instruction::Kind::kWait || kind == Instruction::Kind::kRecord;
  });
  return absl::OkStatus();
}

absl::Status Executable::RunOnOneThread(uint64_t run, const RunLimits& limits) {
  // By then caches are warm.
  const bool timed = ++one_thread_runs_ == kTimedRun;
  const absl::Time begin = timed ? absl::Now() : absl::Time();
  const ScopedParallelThreads threads(devices_.device(lanes_[0]->device).threads());
  for (const Turn& turn : turns_) {
    BoundInstruction& at = turn.lane->instructions[turn.position];
    if (limits.cancelled != nullptr && limits.cancelled->load(std::memory_order_relaxed)) {
      return Explain(absl::CancelledError("Run call was cancelled"), *turn.lane, at);
    }
    const absl::Status status = at.kind == Instruction::Kind::kCollective
                                    ? at.collective->RunAll(turn.streams, turn_, limits.deadline)
                                    : RunInstruction(at, run, limits.deadline);
    if (!status.ok()) return Explain(status, *turn.lane, at);
  }
  // The kernels of a user's op may take longer than they say.
  if (timed && absl::Now() - begin > kTooLong * environment_.short_step) turns_.clear();
  return absl::OkStatus();
}

}  // namespace belfry
