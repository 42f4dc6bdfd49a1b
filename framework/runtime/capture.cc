#include "framework/runtime/capture.h"

#include <algorithm>

#include "framework/base/status.h"
#include "framework/runtime/host/host_copies.h"
#include "framework/runtime/one_thread.h"
#include "spdlog/spdlog.h"

namespace belfry {
namespace {

// An attempt that failed so may succeed once the collectives have been started again.
bool IsTransient(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsCancelled(status) || absl::IsDeadlineExceeded(status);
}

// A kernel that uses the run's number would repeat the captured one's. A mixed step would wait for its CPU lanes.
bool IsRepeatable(const BoundPlan& bound) {
  return bound.asynchronous && !bound.mixed &&
         std::none_of(bound.kernels.begin(), bound.kernels.end(), [](const Kernel& kernel) { return kernel.uses_run; });
}

bool CollectivesCanBeCaptured(const BoundPlan& bound) {
  return std::all_of(bound.collectives.begin(), bound.collectives.end(),
                     [](const auto& collective) { return collective->CanCapture(); });
}

// The pieces of a lane, not captured yet.
std::vector<Piece> FindPieces(const Lane& lane) {
  const std::vector<BoundInstruction>& all = lane.instructions;
  std::vector<Piece> pieces;
  for (size_t begin = 0; begin < all.size();) {
    size_t end = begin;
    bool writes = false;
    for (; end < all.size(); ++end) {
      if (all[end].kind != Instruction::Kind::kRun || all[end].stream != all[begin].stream) break;
      writes = writes || all[end].writes;
    }
    if (end - begin >= StepCapture::kLeastKernels) pieces.push_back({begin, end, writes, nullptr});
    begin = std::max(end, begin + 1);
  }
  return pieces;
}

bool HasPieces(const BoundPlan& bound) {
  return std::any_of(bound.lanes.begin(), bound.lanes.end(),
                     [](const auto& lane) { return !FindPieces(*lane).empty(); });
}

}  // namespace

StepCapture::StepCapture(const BoundPlan& bound, const Watch& watch, bool enabled)
    : bound_(bound), watch_(watch), whole_(CollectivesCanBeCaptured(bound)) {
  if (enabled && IsRepeatable(bound) && (whole_ || HasPieces(bound))) runs_until_capture_ = kPlainRuns;
}

void StepCapture::TryToCapture(RunState& state) {
  if (whole_) {
    TryToCaptureWhole(state);
  } else {
    TryToCapturePieces(state);
  }
}

// Runs go on as `attempt`, to capture the step, has left it.
void StepCapture::Settle(const absl::Status& attempt) {
  runs_until_capture_ = IsTransient(attempt) ? kPlainRuns : kNever;
  if (attempt.ok() || absl::IsUnimplemented(attempt)) return;
  spdlog::warn("A step could not be captured, so its operations are launched one by one: {}",
               std::string(attempt.message()));
}

void StepCapture::TryToCaptureWhole(RunState& state) {
  const auto& collectives = bound_.collectives;
  size_t begun = 0;
  while (begun < collectives.size() && collectives[begun]->BeginCapture()) ++begun;
  // If one of them cannot be captured now, it stays due.
  if (begun == collectives.size()) {
    absl::StatusOr<std::shared_ptr<CapturedStep>> captured = Capture(state);
    if (captured.ok()) captured_ = *captured;
    Settle(captured.status());
  }
  for (size_t i = 0; i < begun; ++i) collectives[i]->EndCapture(captured_);
  for (size_t i = 0; i < begun; ++i) collectives[i]->Reset(state.step_index);
}

void StepCapture::DropIfEnded() {
  if (piece_failed_.exchange(false) || (captured_ != nullptr && captured_->ended())) Drop();
}

void StepCapture::Drop() {
  captured_ = nullptr;
  in_pieces_ = false;
  for (auto& lane : bound_.lanes) lane->pieces.clear();
  runs_until_capture_ = kPlainRuns;
}

void StepCapture::TryToCapturePieces(RunState& state) {
  const absl::Status status = CapturePieces(state);
  if (!status.ok()) Drop();
  in_pieces_ = status.ok();
  Settle(status);
}

// The collectives may be anywhere, since nothing of theirs is captured.
absl::Status StepCapture::CapturePieces(RunState& state) {
  for (auto& lane : bound_.lanes) {
    RETURN_IF_ERROR(bound_.queues.Synchronize(lane->device));
    for (Piece& piece : FindPieces(*lane)) {
      RETURN_IF_ERROR(CapturePiece(*lane, piece, state));
      lane->pieces.push_back(std::move(piece));
    }
  }
  return absl::OkStatus();
}

absl::Status StepCapture::CapturePiece(Lane& lane, Piece& piece, RunState& state) {
  Stream& stream = *lane.instructions[piece.begin].stream;
  RETURN_IF_ERROR(stream.BeginCapture());
  absl::Status status;
  for (size_t i = piece.begin; i < piece.end && status.ok(); ++i) {
    BoundInstruction& at = lane.instructions[i];
    status = RunInstruction(at, state);
    if (!status.ok()) status = watch_.Annotate(status, lane, at);
  }
  absl::StatusOr<std::unique_ptr<CapturedWork>> work = stream.EndCapture();
  RETURN_IF_ERROR(status);
  ASSIGN_OR_RETURN(piece.work, std::move(work));
  return absl::OkStatus();
}

absl::Status StepCapture::ReplayPiece(const Lane& lane, const Piece& piece, RunState& state) {
  if (piece.writes) state.wrote.store(true, std::memory_order_relaxed);
  const absl::Status status = piece.work->Enqueue(*lane.instructions[piece.begin].stream);
  if (!status.ok()) piece_failed_.store(true);
  return OnDevice(status, bound_.devices.device(lane.device));
}

absl::StatusOr<std::shared_ptr<CapturedStep>> StepCapture::Capture(RunState& state) {
  for (auto& lane : bound_.lanes) RETURN_IF_ERROR(bound_.queues.Synchronize(lane->device));
  ++state.step_index;
  state.deadline = absl::InfiniteFuture();
  Stream& first = *bound_.lanes[0]->streams[0];
  std::vector<std::unique_ptr<Event>> rejoined;  // of every stream but the first
  for (auto& lane : bound_.lanes) {
    for (Stream* stream : lane->streams) {
      if (stream != &first) rejoined.push_back(bound_.devices.device(lane->device).NewEvent());
    }
  }
  RETURN_IF_ERROR(first.BeginCapture());
  const absl::Status status = CaptureInstructions(state, rejoined);
  absl::StatusOr<std::unique_ptr<CapturedWork>> captured = first.EndCapture();
  for (auto& lane : bound_.lanes) {
    lane->begun->Reset(state.step_index);
    for (auto& event : lane->rejoined) event->Reset(state.step_index);
  }
  for (auto& event : bound_.events) event->Reset(state.step_index);
  RETURN_IF_ERROR(status);
  RETURN_IF_ERROR(captured.status());
  return std::make_shared<CapturedStep>(*std::move(captured), bound_.devices.device(bound_.lanes[0]->device));
}

// All streams fork off the first one and rejoin it, as a capture requires.
absl::Status StepCapture::CaptureInstructions(RunState& state, const std::vector<std::unique_ptr<Event>>& rejoined) {
  Lane& first = *bound_.lanes[0];
  first.streams[0]->Record(*first.begun, state.step_index);
  for (auto& lane : bound_.lanes) {
    for (Stream* stream : lane->streams) {
      if (stream != first.streams[0]) RETURN_IF_ERROR(stream->Wait(*first.begun, state.step_index, state.deadline));
    }
  }

  ASSIGN_OR_RETURN(const std::vector<ScheduledInstruction> schedule, OrderForOneThread(bound_));
  for (const ScheduledInstruction& scheduled : schedule) RETURN_IF_ERROR(RunScheduled(scheduled, state, watch_));

  size_t number = 0;
  for (auto& lane : bound_.lanes) {
    for (Stream* stream : lane->streams) {
      if (stream == first.streams[0]) continue;
      Event& event = *rejoined[number++];
      stream->Record(event, state.step_index);
      RETURN_IF_ERROR(first.streams[0]->Wait(event, state.step_index, state.deadline));
    }
  }
  return absl::OkStatus();
}

absl::Status StepCapture::Replay(RunState& state) {
  const Lane& first = *bound_.lanes[0];
  const DeviceSet& devices = bound_.devices;
  DeviceQueues& queues = bound_.queues;
  Stream& stream = *first.streams[0];
  state.wrote.store(!bound_.plan->written.empty(), std::memory_order_relaxed);
  for (auto& lane : bound_.lanes) {
    const Device& device = devices.device(lane->device);
    Stream& compute = *lane->streams[0];
    RETURN_IF_ERROR(OnDevice(queues.WaitForOtherDevices(lane->device, compute, state.deadline), device));
    RETURN_IF_ERROR(OnDevice(EnqueueFeeds(bound_, *lane, state), device));
    if (lane.get() == &first) continue;
    compute.Record(*lane->begun, state.step_index);
    RETURN_IF_ERROR(OnDevice(stream.Wait(*lane->begun, state.step_index, state.deadline), device));
  }
  if (const absl::Status enqueued = captured_->Enqueue(stream); !enqueued.ok()) {
    // Kernel by kernel it may work.
    Drop();
    return OnDevice(enqueued, devices.device(first.device));
  }
  for (auto& lane : bound_.lanes) {
    const Device& device = devices.device(lane->device);
    Stream& compute = *lane->streams[0];
    if (lane.get() != &first) RETURN_IF_ERROR(OnDevice(captured_->WaitOn(compute, state.deadline), device));
    RETURN_IF_ERROR(OnDevice(EnqueueFetches(bound_, *lane, state), device));
    queues.RecordEnd(lane->device, compute);
  }
  return absl::OkStatus();
}

}  // namespace belfry
