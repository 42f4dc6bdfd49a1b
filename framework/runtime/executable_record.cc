// A steady step, recorded once and replayed as a whole.
#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/runtime/executable.h"
#include "spdlog/spdlog.h"

namespace belfry {
namespace {

// What failed may work once collectives have been started again.
bool Passes(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsCancelled(status) || absl::IsDeadlineExceeded(status);
}

}  // namespace

bool Executable::CanCapture() const {
  const bool repeats =
      std::none_of(kernels_.begin(), kernels_.end(), [](const Kernel& kernel) { return kernel.uses_run; });
  const bool looked_at = environment_.debug_sync || environment_.check_numerics;
  const bool meet = std::all_of(collectives_.begin(), collectives_.end(), [](auto& each) { return each->CanCapture(); });
  return environment_.replay && asynchronous_ && !mixed_ && repeats && meet && !looked_at;
}

absl::Status Executable::TryToRecord(absl::Time deadline) {
  until_recording_ = -1;
  if (!CanCapture()) return absl::OkStatus();
  until_recording_ = 0;  // again before the next run, if not now
  RETURN_IF_ERROR(AwaitEnd(deadline));
  size_t begun = 0;
  while (begun < collectives_.size() && collectives_[begun]->BeginCapture()) ++begun;
  if (begun == collectives_.size()) {
    until_recording_ = -1;
    absl::StatusOr<std::shared_ptr<CapturedStep>> recorded = Record();
    if (recorded.ok()) recorded_ = *std::move(recorded);
    if (!recorded.ok() && !absl::IsUnimplemented(recorded.status())) {
      spdlog::warn("A step is run piece by piece, because it could not be captured: {}",
                   std::string(recorded.status().message()));
    }
    if (Passes(recorded.status())) until_recording_ = kPlainRuns;
  }
  for (size_t i = 0; i < begun; ++i) collectives_[i]->EndCapture(recorded_);
  for (size_t i = 0; i < begun; ++i) collectives_[i]->Reset(turn_);
  losses_ = Losses();  // nothing was under way
  return absl::OkStatus();
}

void Executable::ForgetEndedRecording() {
  if (recorded_ == nullptr || !recorded_->ended()) return;
  recorded_ = nullptr;
  until_recording_ = kPlainRuns;
}

absl::StatusOr<std::shared_ptr<CapturedStep>> Executable::Record() {
  for (auto& lane : lanes_) RETURN_IF_ERROR(queues_.Synchronize(lane->device));
  ++turn_;
  Stream& first = *lanes_[0]->streams[0];
  std::vector<std::unique_ptr<Event>> joined;  // of every stream but the first
  for (auto& lane : lanes_) {
    for (Stream* stream : lane->streams) {
      if (stream != &first) joined.push_back(devices_.device(lane->device).NewEvent());
    }
  }
  RETURN_IF_ERROR(first.BeginCapture());
  const absl::Status status = RecordInstructions(joined);
  absl::StatusOr<std::unique_ptr<CapturedWork>> recorded = first.EndCapture();
  for (auto& lane : lanes_) {
    lane->begun->Reset(turn_);
    for (auto& joined : lane->joined) joined->Reset(turn_);
  }
  for (auto& event : events_) event->Reset(turn_);
  RETURN_IF_ERROR(status);
  RETURN_IF_ERROR(recorded.status());
  return std::make_shared<CapturedStep>(*std::move(recorded), devices_.device(lanes_[0]->device));
}

absl::Status Executable::RecordInstructions(std::vector<std::unique_ptr<Event>>& joined) {
  const absl::Time never = absl::InfiniteFuture();
  Lane& first = *lanes_[0];
  first.streams[0]->Record(*first.begun, turn_);
  for (auto& lane : lanes_) {
    for (Stream* stream : lane->streams) {
      if (stream != first.streams[0]) RETURN_IF_ERROR(stream->Wait(*first.begun, turn_, never));
    }
  }

  ASSIGN_OR_RETURN(const std::vector<Turn> turns, OrderForOneThread());
  for (const Turn& turn : turns) {
    BoundInstruction& at = turn.lane->instructions[turn.position];
    const absl::Status status = at.kind == Instruction::Kind::kCollective
                                    ? at.collective->RunAll(turn.streams, turn_, never)
                                    : RunInstruction(at, 0, never);
    if (!status.ok()) return Explain(status, *turn.lane, at);
  }

  size_t number = 0;
  for (auto& lane : lanes_) {
    for (Stream* stream : lane->streams) {
      if (stream == first.streams[0]) continue;
      Event& event = *joined[number++];
      stream->Record(event, turn_);
      RETURN_IF_ERROR(first.streams[0]->Wait(event, turn_, never));
    }
  }
  return absl::OkStatus();
}

// The feeds and fetches of a run have places of their own, so they are copied outside of what is replayed.
absl::Status Executable::Replay(absl::Time deadline) {
  Lane& first = *lanes_[0];
  Stream& stream = *first.streams[0];
  wrote_.store(!plan_->written.empty(), std::memory_order_relaxed);
  for (auto& lane : lanes_) {
    Stream& compute = *lane->streams[0];
    for (int other : queues_.asynchronous()) {
      const uint32_t before = other == lane->device ? 0 : queues_.runs(other);
      if (before > 0) RETURN_IF_ERROR(OnDevice(compute.Wait(queues_.end(other), before, deadline), lane->device));
    }
    RETURN_IF_ERROR(OnDevice(CopyFeeds(*lane, deadline), lane->device));
    if (lane.get() == &first) continue;
    compute.Record(*lane->begun, turn_);
    RETURN_IF_ERROR(OnDevice(stream.Wait(*lane->begun, turn_, deadline), lane->device));
  }
  if (const absl::Status enqueued = recorded_->Enqueue(stream); !enqueued.ok()) {
    // Piece by piece it may work.
    recorded_ = nullptr;
    until_recording_ = kPlainRuns;
    return OnDevice(enqueued, first.device);
  }
  for (auto& lane : lanes_) {
    Stream& compute = *lane->streams[0];
    if (lane.get() != &first) RETURN_IF_ERROR(OnDevice(recorded_->WaitOn(compute, deadline), lane->device));
    RETURN_IF_ERROR(OnDevice(CopyFetches(*lane), lane->device));
    compute.Record(queues_.end(lane->device), runs_[lane->device] + 1);
  }
  return absl::OkStatus();
}

}  // namespace belfry
