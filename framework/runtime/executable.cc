#include "framework/runtime/executable.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/memory/out_of_memory.h"
#include "framework/base/parallel.h"
#include "framework/base/status.h"
#include "framework/base/steady_time.h"
#include "framework/runtime/host/host_copies.h"

namespace belfry {
namespace {

// The time between two checks of the collectives.
constexpr absl::Duration kCheckInterval = absl::Seconds(1);
constexpr absl::string_view kDuringStep = "a step";
constexpr char kLost[] =
    "; steps in progress are lost, and variables may hold any value: restore or initialize them before continuing";

absl::Status Append(const absl::Status& status, absl::string_view text) {
  return absl::Status(status.code(), absl::StrCat(status.message(), text));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Executable>> Executable::Create(CompiledPlan compiled,
                                                               const BindingEnvironment& environment,
                                                               const ExecutionOptions& options) {
  ASSIGN_OR_RETURN(BoundPlan bound, Bind(std::move(compiled), environment));
  std::unique_ptr<Recheck> recheck;
  if (options.recheck > 0) {
    ASSIGN_OR_RETURN(recheck, Recheck::Create(bound, environment.variables, options.recheck, options.short_step));
  }
  auto executable = std::unique_ptr<Executable>(new Executable(std::move(bound), std::move(recheck), options));
  RETURN_IF_ERROR(executable->one_thread_.Prepare(options.short_step));
  return executable;
}

Executable::Executable(BoundPlan bound, std::unique_ptr<Recheck> recheck, const ExecutionOptions& options)
    : bound_(std::move(bound)),
      recheck_(std::move(recheck)),
      watch_(bound_, options.debug_sync, options.check_numerics, options.observer),
      one_thread_(bound_),
      capture_(bound_, watch_, options.replay && !options.debug_sync && !options.check_numerics && !options.observer),
      ends_(bound_.devices.size(), 0) {
  for (auto& lane : bound_.lanes) {
    has_team_ = has_team_ || (!lane->asynchronous && bound_.devices.device(lane->device).threads() > 1);
    lane->task.body = [this, &lane = *lane] {
      lane.status = RunLane(lane);
      if (!lane.status.ok() && !MetDeadline(lane)) Fail(lane.status);
    };
  }
}

absl::Status Executable::StartThreads(DeviceThreads& threads, absl::Duration short_step) {
  if (bound_.lanes.empty()) return absl::OkStatus();
  if (bound_.lanes.size() == 1) {
    if (bound_.asynchronous || absl::Seconds(EstimateSeconds(plan().program)) < short_step) return absl::OkStatus();
    const ScopedParallelThreads own(bound_.devices.device(bound_.lanes[0]->device).threads());
    return StartParallelThreads();
  }
  for (auto& lane : bound_.lanes) {
    ASSIGN_OR_RETURN(lane->worker, threads.Get(lane->device, lane->streams[0]->kind()));
  }
  return absl::OkStatus();
}

Executable::~Executable() { AwaitEnd(absl::InfiniteFuture()).IgnoreError(); }

// Waits for the end of a device's run. A collective that failed would keep its devices waiting forever, so it is
// checked meanwhile.
absl::Status Executable::AwaitDevice(int device, uint32_t run, absl::Time deadline) {
  while (true) {
    const absl::Time check = bound_.collectives.empty() ? deadline : std::min(deadline, SteadyNow() + kCheckInterval);
    const absl::Status status = OnDevice(bound_.queues.end(device).Wait(run, check), bound_.devices.device(device));
    if (!absl::IsDeadlineExceeded(status)) return status;
    for (auto& collective : bound_.collectives) {
      const absl::Status found = collective->Check(/*give_up=*/check == deadline);
      if (found.ok()) continue;
      aborts_ = CountAborts();
      return Append(found, kLost);
    }
    if (check == deadline) return status;
  }
}

// The first error of an asynchronous device's finished work; clears all of them.
absl::Status Executable::FindErrors(const Lane& lane) const {
  const Device& device = bound_.devices.device(lane.device);
  absl::Status status;
  for (Stream* stream : lane.streams) status.Update(OnDevice(stream->Error(), device));
  if (lane.copy_in != nullptr) status.Update(OnDevice(lane.copy_in->Error(), device));
  for (const BoundInstruction* at : lane.checked) {
    const absl::Status found = bound_.kernels[at->index].error();
    if (found.ok() || !status.ok()) continue;
    status = watch_.Annotate(found, lane, *at);
    if (bound_.plan->written.empty() || bound_.mixed) continue;
    status = Append(status,
                    "; the step ran to completion and updated variables: restore or initialize them before continuing");
  }
  return status;
}

uint64_t Executable::CountAborts() const {
  uint64_t aborts = 0;
  for (const auto& collective : bound_.collectives) aborts += collective->aborts();
  return aborts;
}

// The thread of another step may have found a failure, and aborted what was in flight for this step, too.
absl::Status Executable::CheckAborts() {
  const uint64_t before = std::exchange(aborts_, CountAborts());
  if (!std::exchange(in_flight_, false) || before == aborts_) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("the collectives of this step were aborted on all devices after another step failed", kLost));
}

// Waits for all runs before the last one, whose staging places are then free again.
absl::Status Executable::AwaitRoom(absl::Time deadline) {
  absl::Status status;
  for (auto& lane : bound_.lanes) {
    if (!lane->asynchronous) continue;
    ends_[lane->device] = bound_.queues.runs(lane->device);
    RETURN_IF_ERROR(AwaitDevice(lane->device, ends_[lane->device] - 1, deadline));
    status.Update(FindErrors(*lane));
  }
  if (status.ok()) return CheckAborts();
  // The last run may have met the same error, which is not to be reported twice.
  AwaitEnd(deadline).IgnoreError();
  return status;
}

absl::Status Executable::AwaitEnd(absl::Time deadline) {
  absl::Status status;
  for (auto& lane : bound_.lanes) {
    if (!lane->asynchronous || ends_[lane->device] == 0) continue;
    status.Update(AwaitDevice(lane->device, ends_[lane->device], deadline));
    status.Update(FindErrors(*lane));
  }
  status.Update(CheckAborts());
  return status;
}

absl::Status Executable::AwaitDevices(absl::Time deadline) {
  for (auto& lane : bound_.lanes) {
    if (!lane->asynchronous || ends_[lane->device] == 0) continue;
    RETURN_IF_ERROR(AwaitDevice(lane->device, ends_[lane->device], deadline));
  }
  return absl::OkStatus();
}

// Begins after all work that any device was given before, so that nothing is overwritten that is still being read.
absl::Status Executable::BeginLane(Lane& lane) {
  Stream& compute = *lane.streams[0];
  RETURN_IF_ERROR(bound_.queues.WaitForOtherDevices(lane.device, compute, state_.deadline));
  RETURN_IF_ERROR(EnqueueFeeds(bound_, lane, state_));
  if (lane.streams.size() > 1) compute.Record(*lane.begun, state_.step_index);
  for (size_t i = 1; i < lane.streams.size(); ++i) {
    RETURN_IF_ERROR(lane.streams[i]->Wait(*lane.begun, state_.step_index, state_.deadline));
  }
  return absl::OkStatus();
}

absl::Status Executable::EndLane(Lane& lane) {
  Stream& compute = *lane.streams[0];
  for (size_t i = 1; i < lane.streams.size(); ++i) {
    lane.streams[i]->Record(*lane.rejoined[i - 1], state_.step_index);
    RETURN_IF_ERROR(compute.Wait(*lane.rejoined[i - 1], state_.step_index, state_.deadline));
  }
  RETURN_IF_ERROR(EnqueueFetches(bound_, lane, state_));
  bound_.queues.RecordEnd(lane.device, compute);
  return absl::OkStatus();
}

// Nobody else would catch an exception on the thread of a lane.
absl::Status Executable::RunLane(Lane& lane) {
  return CatchOutOfMemory(kDuringStep, [&] { return RunWholeLane(lane); });
}

absl::Status Executable::RunWholeLane(Lane& lane) {
  const Device& device = bound_.devices.device(lane.device);
  if (lane.asynchronous) RETURN_IF_ERROR(OnDevice(BeginLane(lane), device));
  size_t next = 0;
  if (!watch_.traced()) {
    for (const Piece& piece : lane.pieces) {
      RETURN_IF_ERROR(RunInstructions(lane, next, piece.begin));
      RETURN_IF_ERROR(RunPiece(lane, piece));
      next = piece.end;
    }
  }
  RETURN_IF_ERROR(RunInstructions(lane, next, lane.instructions.size()));
  if (watch_.watched()) Watch::Finish(lane);
  return lane.asynchronous ? OnDevice(EndLane(lane), device) : absl::OkStatus();
}

absl::Status Executable::WhyStopped(const Lane& lane, const BoundInstruction& at) const {
  if (failed_.load(std::memory_order_relaxed)) return absl::CancelledError("another stream failed");
  return watch_.Annotate(absl::CancelledError("Run call was cancelled"), lane, at);
}

absl::Status Executable::RunInstructions(Lane& lane, size_t begin, size_t end) {
  const bool watched = watch_.watched();
  for (size_t i = begin; i < end; ++i) {
    BoundInstruction& at = lane.instructions[i];
    if (stopped()) return WhyStopped(lane, at);
    const absl::Status status = RunRechecked(
        lane, i, state_, [&] { return watched ? watch_.Run(lane, i, state_) : RunInstruction(at, state_); });
    if (!status.ok()) return watch_.Annotate(status, lane, at);
  }
  return absl::OkStatus();
}

absl::Status Executable::RunPiece(Lane& lane, const Piece& piece) {
  const BoundInstruction& first = lane.instructions[piece.begin];
  if (stopped()) return WhyStopped(lane, first);
  if (watch_.watched()) {
    if (absl::Status status = Watch::Reach(lane, piece.begin, state_); !status.ok()) {
      return watch_.Annotate(status, lane, first);
    }
  }
  return capture_.ReplayPiece(lane, piece, state_);
}

absl::Status Executable::RunOnThreads() {
  one_thread_.CatchUpEvents(state_.step_index - 1);
  for (auto& lane : bound_.lanes) lane->worker->Start(lane->task);
  for (auto& lane : bound_.lanes) lane->worker->Wait();
  return failed_.load() ? absl::OkStatus() : DeadlineError();
}

bool Executable::MetDeadline(const Lane& lane) const {
  return absl::IsDeadlineExceeded(lane.status) && state_.deadline != absl::InfiniteFuture();
}

// Lanes wait for each other, and the first participant of a collective waits for other processes, which its error
// names. So a lane that meets the deadline wakes no other: all meet it, and the error is that of the lowest
// participant.
absl::Status Executable::DeadlineError() const {
  const Lane* first = nullptr;
  int first_place = 0;
  for (const auto& lane : bound_.lanes) {
    if (lane->status.ok()) continue;
    const size_t position = lane->position.load(std::memory_order_relaxed);
    int place = std::numeric_limits<int>::max();
    if (position < lane->instructions.size() && lane->instructions[position].kind == Instruction::Kind::kCollective) {
      place = lane->instructions[position].participant;
    }
    if (first != nullptr && place >= first_place) continue;
    first = lane.get();
    first_place = place;
  }
  return first == nullptr ? absl::OkStatus() : first->status;
}

// The first failure wakes the other lanes.
void Executable::Fail(absl::Status status) {
  if (failed_.exchange(true)) return;
  error_ = std::move(status);
  for (auto& event : bound_.events) event->Cancel();
  for (auto& collective : bound_.collectives) collective->Cancel();
}

// Waits, after a failure, for what was enqueued, and sets events and ends as if the run had been completed.
void Executable::Recover() {
  for (auto& lane : bound_.lanes) {
    if (!lane->asynchronous) continue;
    bound_.queues.Synchronize(lane->device).IgnoreError();
    bound_.queues.RecordEnd(lane->device);
    lane->begun->Reset(state_.step_index);
    for (auto& event : lane->rejoined) event->Reset(state_.step_index);
    if (lane->fed != nullptr) lane->fed->Reset(state_.step_index);
  }
  for (auto& event : bound_.events) event->Reset(state_.step_index);
  for (auto& collective : bound_.collectives) collective->Reset(state_.step_index);
  failed_.store(false);
}

absl::Status Executable::RunLanes() {
  absl::Status status;
  if (capture_.captured() && !watch_.traced()) {
    status = CatchOutOfMemory(kDuringStep, [&] { return capture_.Replay(state_); });
  } else if (bound_.lanes.size() == 1) {
    const ScopedParallelThreads threads(bound_.devices.device(bound_.lanes[0]->device).threads());
    status = RunLane(*bound_.lanes[0]);
    if (!bound_.asynchronous) return status;
  } else if (one_thread_.preferred() && !watch_.watched()) {
    status = CatchOutOfMemory(kDuringStep, [&] { return one_thread_.Run(state_, watch_); });
  } else {
    status = RunOnThreads();
  }
  if (!status.ok()) Fail(std::move(status));
  const bool failed = failed_.load();
  if (failed) {
    Recover();
    aborts_ = CountAborts();
  } else {
    last_ok_ = state_.place;
    capture_.CountRun();
  }
  in_flight_ = !failed;
  for (auto& lane : bound_.lanes) {
    if (lane->asynchronous) ends_[lane->device] = bound_.queues.AddRun(lane->device);
  }
  return failed ? std::move(error_) : absl::OkStatus();
}

absl::Status Executable::Run(uint64_t run, absl::Span<const Tensor> feeds, const RunLimits& limits, StepTrace* trace) {
  if (!has_team_) return RunHere(run, feeds, limits, trace);
  return OutsideParallelRegion([&] { return RunHere(run, feeds, limits, trace); });
}

absl::Status Executable::RunHere(uint64_t run, absl::Span<const Tensor> feeds, const RunLimits& limits,
                                 StepTrace* trace) {
  if (bound_.asynchronous) {
    RETURN_IF_ERROR(AwaitRoom(limits.deadline));
    capture_.DropIfEnded();
    if (capture_.due()) {
      RETURN_IF_ERROR(AwaitEnd(limits.deadline));
      capture_.TryToCapture(state_);
      aborts_ = CountAborts();  // nothing was in flight
    }
    // Work in flight would be part of the trace.
    if (trace != nullptr) RETURN_IF_ERROR(AwaitEnd(limits.deadline));
  }
  RETURN_IF_ERROR(watch_.Begin(trace != nullptr, limits.deadline));
  state_.run = run;
  ++state_.step_index;
  // Not the place of the last good run, even after failed ones: its fetches may be read yet.
  state_.place = 1 - last_ok_;
  state_.deadline = limits.deadline;
  state_.cancelled = limits.cancelled;
  state_.wrote.store(false, std::memory_order_relaxed);
  StageFeeds(bound_, state_, feeds);
  absl::Status status;
  if (!bound_.lanes.empty()) status = RunLanes();
  if (status.ok() && recheck_ != nullptr) status = recheck_->Finish(state_);
  // A CPU lane of the next run would overwrite what other devices are still reading.
  if (status.ok() && (bound_.mixed || trace != nullptr)) status = AwaitEnd(limits.deadline);
  if (status.ok() && trace != nullptr) status = watch_.FinishTrace(*trace);
  if (status.ok() || !state_.wrote.load(std::memory_order_relaxed)) return status;
  return Append(
      status,
      "; the step had begun to update variables, so some are updated and others are not: restore or initialize "
      "them before continuing");
}

absl::Status Executable::Fetch(absl::Time deadline, std::vector<Tensor>& fetches) {
  if (bound_.asynchronous) RETURN_IF_ERROR(AwaitEnd(deadline));
  ReadFetches(bound_, last_ok_, fetches);
  return absl::OkStatus();
}

}  // namespace belfry
