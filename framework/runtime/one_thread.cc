// The schedule of a step for one thread.
//
// Invariant: a schedule contains every instruction of every lane once (a collective once for all of its participants),
// keeps the order of each lane, places a wait after the record of its event, and a collective after everything that
// precedes it on any of its participants' lanes.
//
// Why it holds: OrderForOneThread takes the next instruction of a lane only if it is no wait for an event that is yet
// to be recorded and no collective that a participant has yet to reach. That is a topological sort: as long as an
// instruction is left, and the dependencies have no cycle, one of them can be taken. They have none, because an event
// is recorded after a node of lower index than the node that waits for it, and all participants meet the collectives of
// a plan in one order; a plan that breaks this gives an InternalError, not a hang.
//
// So on one thread every wait is satisfied when it is reached, and OneThread drops waits and records: the order of the
// calls is the order of the work. That needs CPU devices, whose work is done when a call returns, with equally many
// threads, since the thread count of the first one is set for the whole step. A captured step keeps its waits and
// records, which become edges of the captured graph.
//
// Cost: each pass over the lanes takes at least one instruction, so at most instructions * lanes attempts, each of
// which looks at all lanes if it is a collective; once per executable. A run walks the schedule and touches no event,
// so events fall behind the step index, and CatchUpEvents is due before the lanes run on threads.
#include "framework/runtime/one_thread.h"

#include <algorithm>
#include <utility>

#include "framework/base/parallel.h"
#include "framework/base/status.h"
#include "framework/base/steady_time.h"
#include "framework/compiler/plan_report.h"

namespace belfry {
namespace {

// The least time of a kernel call, and rates for small tensors, which are in a cache.
constexpr double kKernelSeconds = 15e-9, kFlopsPerSecond = 2e9, kBytesPerSecond = 1e10;
// The run that is timed, when caches are warm, and how many times longer than a short step it may be.
constexpr int kTimedRun = 3, kMaxExcess = 10;

// The lanes whose next instruction is `collective`, by participant. `next`: by lane, the position of that instruction.
std::vector<size_t> LanesAt(const BoundPlan& bound, const std::vector<size_t>& next, const Collective* collective) {
  std::vector<std::pair<int, size_t>> arrived;  // participant, lane
  for (size_t i = 0; i < bound.lanes.size(); ++i) {
    if (next[i] == bound.lanes[i]->instructions.size()) continue;
    const BoundInstruction& at = bound.lanes[i]->instructions[next[i]];
    if (at.collective == collective) arrived.emplace_back(at.participant, i);
  }
  std::sort(arrived.begin(), arrived.end());
  std::vector<size_t> lanes;
  for (const auto& [participant, lane] : arrived) lanes.push_back(lane);
  return lanes;
}

}  // namespace

double EstimateSeconds(const Program& program) {
  double seconds = 0;
  for (const ProgramNode& node : program.nodes) {
    if (!Runs(node)) continue;
    seconds += kKernelSeconds + FlopsOf(program, node) / kFlopsPerSecond;
    for (const TensorSpec& output : node.outputs) seconds += static_cast<double>(output.bytes()) / kBytesPerSecond;
  }
  return seconds;
}

absl::StatusOr<std::vector<ScheduledInstruction>> OrderForOneThread(const BoundPlan& bound) {
  std::vector<ScheduledInstruction> schedule;
  std::vector<size_t> next(bound.lanes.size(), 0);
  std::vector<bool> recorded(bound.events.size(), false);
  bool moved = true;
  while (moved) {
    moved = false;
    for (size_t i = 0; i < bound.lanes.size(); ++i) {
      Lane& lane = *bound.lanes[i];
      for (; next[i] < lane.instructions.size(); ++next[i], moved = true) {
        const BoundInstruction& at = lane.instructions[next[i]];
        if (at.kind == Instruction::Kind::kWait && !recorded[at.index]) break;
        ScheduledInstruction scheduled{.lane = &lane, .position = next[i]};
        if (at.kind == Instruction::Kind::kCollective) {
          const std::vector<size_t> arrived = LanesAt(bound, next, at.collective);
          if (static_cast<int>(arrived.size()) < at.participants) break;
          for (size_t other : arrived) {
            scheduled.streams.push_back(bound.lanes[other]->instructions[next[other]].stream);
            if (other != i) scheduled.others.emplace_back(bound.lanes[other].get(), next[other]++);
          }
        }
        if (at.kind == Instruction::Kind::kRecord) recorded[at.index] = true;
        schedule.push_back(std::move(scheduled));
      }
    }
  }
  for (size_t i = 0; i < bound.lanes.size(); ++i) {
    if (next[i] < bound.lanes[i]->instructions.size()) {
      return absl::InternalError("the lanes of a step are deadlocked: they wait for each other");
    }
  }
  return schedule;
}

absl::Status RunForAll(const ScheduledInstruction& scheduled, const BoundInstruction& at, const RunState& state) {
  for (const auto& [lane, position] : scheduled.others) {
    if (lane->recheck != nullptr) RETURN_IF_ERROR(lane->recheck->Before(position, state));
  }
  absl::Status status = at.collective->RunAll(scheduled.streams, state.step_index, state.deadline);
  for (const auto& [lane, position] : scheduled.others) {
    if (lane->recheck != nullptr) status = lane->recheck->After(position, state, status);
  }
  return status;
}

absl::Status OneThread::Prepare(absl::Duration short_step) {
  short_step_ = short_step;
  if (bound_.asynchronous || bound_.lanes.size() < 2) return absl::OkStatus();
  const auto threads = [&](const Lane& lane) { return bound_.devices.device(lane.device).threads(); };
  const bool alike = std::all_of(bound_.lanes.begin(), bound_.lanes.end(),
                                 [&](const auto& lane) { return threads(*lane) == threads(*bound_.lanes[0]); });
  const bool meet = std::all_of(bound_.collectives.begin(), bound_.collectives.end(),
                                [](const auto& collective) { return collective->CanCapture(); });
  if (!alike || !meet || absl::Seconds(EstimateSeconds(bound_.plan->program)) >= short_step) return absl::OkStatus();
  ASSIGN_OR_RETURN(schedule_, OrderForOneThread(bound_));
  std::erase_if(schedule_, [](const ScheduledInstruction& scheduled) {
    return scheduled.lane->instructions[scheduled.position].uses_event();
  });
  return absl::OkStatus();
}

absl::Status OneThread::Run(RunState& state, const Watch& watch) {
  const bool timed = ++runs_ == kTimedRun;
  const absl::Time begin = timed ? SteadyNow() : absl::Time();
  const ScopedParallelThreads threads(bound_.devices.device(bound_.lanes[0]->device).threads());
  for (const ScheduledInstruction& scheduled : schedule_) {
    if (state.is_cancelled()) {
      return watch.Annotate(absl::CancelledError("Run call was cancelled"), *scheduled.lane,
                            scheduled.lane->instructions[scheduled.position]);
    }
    RETURN_IF_ERROR(RunScheduled(scheduled, state, watch));
  }
  // The kernels of a user's op may take longer than their shapes suggest.
  if (timed && SteadyNow() - begin > kMaxExcess * short_step_) schedule_.clear();
  return absl::OkStatus();
}

void OneThread::CatchUpEvents(uint32_t step_index) const {
  if (!preferred()) return;
  for (const auto& event : bound_.events) event->Reset(step_index);
}

}  // namespace belfry
