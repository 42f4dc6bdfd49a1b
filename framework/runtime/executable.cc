#include "framework/runtime/executable.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "framework/base/check.h"
#include "framework/base/parallel.h"
#include "framework/base/status.h"

namespace belfry {
namespace {

// Between looks after collectives.
constexpr absl::Duration kLook = absl::Seconds(1);
constexpr char kLost[] =
    "; steps under way are lost, and variables may hold anything: restore or initialize them before going on";

}  // namespace

Executable::~Executable() { AwaitEnd(absl::InfiniteFuture()).IgnoreError(); }

absl::Status Executable::Explain(const absl::Status& status, const Lane& lane, const BoundInstruction& at) const {
  std::string where = devices_.device(lane.device).name().ToString();
  if (absl::IsDeadlineExceeded(status)) {
    return absl::Status(status.code(), absl::StrCat(status.message(), "; by then\n", Positions()));
  }
  if (at.kind == Instruction::Kind::kWait || at.kind == Instruction::Kind::kRecord) {
    return absl::Status(status.code(), absl::StrCat(status.message(), " (", where, " was waiting for another device)"));
  }
  return absl::Status(status.code(), absl::StrCat(status.message(), " [", Describe(plan_->program.nodes[at.index]),
                                                  " on ", where, "]"));
}

absl::Status Executable::OnDevice(const absl::Status& status, int device) const {
  if (status.ok()) return status;
  return absl::Status(status.code(),
                      absl::StrCat(status.message(), " [on ", devices_.device(device).name().ToString(), "]"));
}

// Waits for the end of a device's run. A collective that fails there would keep its devices waiting for ever.
absl::Status Executable::AwaitDevice(int device, uint32_t run, absl::Time deadline) {
  while (true) {
    const absl::Time look = collectives_.empty() ? deadline : std::min(deadline, absl::Now() + kLook);
    const absl::Status status = OnDevice(queues_.end(device).Wait(run, look), device);
    if (!absl::IsDeadlineExceeded(status)) return status;
    for (auto& collective : collectives_) {
      const absl::Status found = collective->Check(/*give_up=*/look == deadline);
      if (found.ok()) continue;
      losses_ = Losses();
      return absl::Status(found.code(), absl::StrCat(found.message(), kLost));
    }
    if (look == deadline) return status;
  }
}

// The first error of an asynchronous device's work that is done. The others are forgotten.
absl::Status Executable::Errors(const Lane& lane) const {
  absl::Status status;
  for (Stream* stream : lane.streams) status.Update(OnDevice(stream->Error(), lane.device));
  if (lane.copy_in != nullptr) status.Update(OnDevice(lane.copy_in->Error(), lane.device));
  for (const BoundInstruction* at : lane.checked) {
    const absl::Status found = kernels_[at->index].error();
    if (found.ok() || !status.ok()) continue;
    status = Explain(found, lane, *at);
    if (plan_->written.empty() || mixed_) continue;
    status = absl::Status(status.code(), absl::StrCat(status.message(),
                                                      "; the step went on to its end, and updated variables: restore "
                                                      "or initialize them before going on"));
  }
  return status;
}

uint64_t Executable::Losses() const {
  uint64_t losses = 0;
  for (const auto& collective : collectives_) losses += collective->aborts();
  return losses;
}

// Another step's thread may have found the failure, and ended what was under way for this one, too.
absl::Status Executable::CheckLosses() {
  const uint64_t before = std::exchange(losses_, Losses());
  if (!std::exchange(under_way_, false) || before == losses_) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("the collectives of this step were ended on all devices after another step had failed", kLost));
}

// All runs before the last one are done: then the copies of every second run are free again.
absl::Status Executable::AwaitRoom(absl::Time deadline) {
  absl::Status status;
  for (auto& lane : lanes_) {
    if (!lane->asynchronous) continue;
    runs_[lane->device] = queues_.runs(lane->device);
    RETURN_IF_ERROR(AwaitDevice(lane->device, runs_[lane->device] - 1, deadline));
    status.Update(Errors(*lane));
  }
  if (status.ok()) return CheckLosses();
  // What the last run has found of the same kind is not reported once more.
  AwaitEnd(deadline).IgnoreError();
  return status;
}

// The places ahead were last read by the run before the last one, which is done.
absl::Status Executable::CopyFeeds(Lane& lane, absl::Time deadline) {
  Device& device = devices_.device(lane.device);
  Stream& compute = *lane.streams[0];
  const uint32_t place = turn_ % 2;
  const auto is_here = [&](const Slot& feed) {
    return feed.device == lane.device && feed.data != nullptr && feed.spec.bytes() > 0;
  };
  if (lane.copy_in != nullptr) {
    for (Slot& feed : feeds_) {
      void* const ahead = feed.ahead[place].data();
      if (!is_here(feed) || ahead == nullptr) continue;
      RETURN_IF_ERROR(
          lane.copy_in->Copy(ahead, device, feed.staged[place].data(), devices_.device(0), feed.spec.bytes()));
    }
    lane.copy_in->Record(*lane.fed, turn_);
    RETURN_IF_ERROR(compute.Wait(*lane.fed, turn_, deadline));
  }
  for (Slot& feed : feeds_) {
    if (!is_here(feed)) continue;
    const void* const ahead = feed.ahead[place].data();
    const void* const from = ahead != nullptr ? ahead : feed.staged[place].data();
    RETURN_IF_ERROR(
        compute.Copy(feed.data, device, from, ahead != nullptr ? device : devices_.device(0), feed.spec.bytes()));
  }
  return absl::OkStatus();
}

absl::Status Executable::CopyFetches(Lane& lane) {
  for (Slot& fetch : fetches_) {
    if (fetch.device != lane.device || fetch.data == nullptr || fetch.spec.bytes() == 0) continue;
    RETURN_IF_ERROR(lane.streams[0]->Copy(fetch.staged[turn_ % 2].data(), devices_.device(0), fetch.data,
                                          devices_.device(fetch.device), fetch.spec.bytes()));
  }
  return absl::OkStatus();
}

// After all that was given to any device before, so that nothing is overwritten that is still read.
absl::Status Executable::Begin(Lane& lane, absl::Time deadline) {
  Stream& compute = *lane.streams[0];
  for (int other : queues_.asynchronous()) {
    const uint32_t before = other == lane.device ? 0 : queues_.runs(other);
    if (before > 0) RETURN_IF_ERROR(compute.Wait(queues_.end(other), before, deadline));
  }
  RETURN_IF_ERROR(CopyFeeds(lane, deadline));
  if (lane.streams.size() > 1) compute.Record(*lane.begun, turn_);
  for (size_t i = 1; i < lane.streams.size(); ++i) {
    RETURN_IF_ERROR(lane.streams[i]->Wait(*lane.begun, turn_, deadline));
  }
  return absl::OkStatus();
}

absl::Status Executable::End(Lane& lane, absl::Time deadline) {
  Stream& compute = *lane.streams[0];
  for (size_t i = 1; i < lane.streams.size(); ++i) {
    lane.streams[i]->Record(*lane.joined[i - 1], turn_);
    RETURN_IF_ERROR(compute.Wait(*lane.joined[i - 1], turn_, deadline));
  }
  RETURN_IF_ERROR(CopyFetches(lane));
  compute.Record(queues_.end(lane.device), runs_[lane.device] + 1);
  return absl::OkStatus();
}

absl::Status Executable::RunInstruction(BoundInstruction& at, uint64_t run, absl::Time deadline) {
  switch (at.kind) {
    case Instruction::Kind::kRun:
      at.context.run = run;
      if (at.writes) wrote_.store(true, std::memory_order_relaxed);
      return (*at.kernel)(at.context);
    case Instruction::Kind::kCollective: return at.collective->Run(at.participant, *at.stream, turn_, deadline);
    case Instruction::Kind::kWait: return at.stream->Wait(*at.event, turn_, deadline);
    case Instruction::Kind::kRecord: at.stream->Record(*at.event, turn_);
  }
  return absl::OkStatus();
}

absl::Status Executable::RunLane(Lane& lane, uint64_t run, const RunLimits& limits) {
  if (lane.asynchronous) RETURN_IF_ERROR(OnDevice(Begin(lane, limits.deadline), lane.device));
  for (size_t i = 0; i < lane.instructions.size(); ++i) {
    BoundInstruction& at = lane.instructions[i];
    if (failed_.load(std::memory_order_relaxed)) return absl::CancelledError("another stream failed");
    if (limits.cancelled != nullptr && limits.cancelled->load(std::memory_order_relaxed)) {
      return Explain(absl::CancelledError("Run call was cancelled"), lane, at);
    }
    const absl::Status status =
        watched_ ? RunWatched(lane, i, run, limits.deadline) : RunInstruction(at, run, limits.deadline);
    if (!status.ok()) return Explain(status, lane, at);
  }
  if (watched_) lane.position.store(lane.instructions.size(), std::memory_order_relaxed);
  return lane.asynchronous ? OnDevice(End(lane, limits.deadline), lane.device) : absl::OkStatus();
}

void Executable::Fail(absl::Status status) {
  if (failed_.exchange(true)) return;
  error_ = std::move(status);
  for (auto& event : events_) event->Cancel();
  for (auto& collective : collectives_) collective->Cancel();
}

// After a failure: waits for what was enqueued, and makes events and ends as if the run had come to its end.
void Executable::Recover() {
  for (auto& lane : lanes_) {
    if (!lane->asynchronous) continue;
    queues_.Synchronize(lane->device).IgnoreError();
    queues_.end(lane->device).Record(runs_[lane->device] + 1);
    lane->begun->Reset(turn_);
    for (auto& joined : lane->joined) joined->Reset(turn_);
    if (lane->fed != nullptr) lane->fed->Reset(turn_);
  }
  for (auto& event : events_) event->Reset(turn_);
  for (auto& collective : collectives_) collective->Reset(turn_);
  failed_.store(false);
}

absl::Status Executable::RunAll(uint64_t run, const RunLimits& limits) {
  if (recorded_ != nullptr && !traced_) {
    absl::Status status = Replay(limits.deadline);
    if (!status.ok()) Fail(std::move(status));
  } else if (lanes_.size() == 1) {
    const ScopedParallelThreads threads(devices_.device(lanes_[0]->device).threads());
    absl::Status status = RunLane(*lanes_[0], run, limits);
    if (!asynchronous_) return status;
    if (!status.ok()) Fail(std::move(status));
  } else if (!turns_.empty() && !watched_) {
    absl::Status status = RunOnOneThread(run, limits);
    if (!status.ok()) Fail(std::move(status));
  } else {
    // Runs on one thread have left them behind.
    for (size_t i = 0; !turns_.empty() && i < events_.size(); ++i) events_[i]->Reset(turn_ - 1);
    run_ = run;
    limits_ = &limits;
    for (auto& lane : lanes_) lane->worker->Start(lane->task);
    for (auto& lane : lanes_) lane->worker->Wait();
  }
  const bool failed = failed_.load();
  if (failed) Recover();
  if (failed) losses_ = Losses();
  under_way_ = !failed;
  if (!failed) ran_ = turn_;
  if (!failed && until_recording_ > 0) --until_recording_;
  for (auto& lane : lanes_) {
    if (lane->asynchronous) runs_[lane->device] = queues_.AddRun(lane->device);
  }
  return failed ? std::move(error_) : absl::OkStatus();
}

absl::Status Executable::AwaitEnd(absl::Time deadline) {
  absl::Status status;
  for (auto& lane : lanes_) {
    if (!lane->asynchronous || runs_[lane->device] == 0) continue;
    status.Update(AwaitDevice(lane->device, runs_[lane->device], deadline));
    status.Update(Errors(*lane));
  }
  status.Update(CheckLosses());
  return status;
}

absl::Status Executable::Run(uint64_t run, absl::Span<const Tensor> feeds, const RunLimits& limits, StepTrace* trace) {
  if (asynchronous_) {
    RETURN_IF_ERROR(AwaitRoom(limits.deadline));
    ForgetEndedRecording();
    if (until_recording_ == 0) RETURN_IF_ERROR(TryToRecord(limits.deadline));
    // What is under way is no part of what is traced.
    if (trace != nullptr) RETURN_IF_ERROR(AwaitEnd(limits.deadline));
  }
  traced_ = trace != nullptr;
  if (traced_) RETURN_IF_ERROR(PrepareTrace());
  watched_ =
      traced_ || environment_.debug_sync || environment_.check_numerics || limits.deadline != absl::InfiniteFuture();
  if (watched_) WatchFromHere();
  const absl::Time begin = traced_ ? absl::Now() : absl::Time();
  ++turn_;
  wrote_.store(false, std::memory_order_relaxed);
  for (size_t i = 0; i < feeds.size(); ++i) {
    Slot& slot = feeds_[i];
    void* const to = devices_.device(slot.device).asynchronous() ? slot.staged[turn_ % 2].data() : slot.data;
    if (to != nullptr && feeds[i].bytes() > 0) std::memcpy(to, feeds[i].raw(), feeds[i].bytes());
  }
  absl::Status status;
  if (!lanes_.empty()) status = RunAll(run, limits);
  // A CPU lane of the next run would overwrite what other devices still read.
  if (status.ok() && (mixed_ || traced_)) status = AwaitEnd(limits.deadline);
  if (status.ok() && traced_) {
    trace->begin = begin;
    status = FinishTrace(*trace);
  }
  if (status.ok() || !wrote_.load(std::memory_order_relaxed)) return status;
  return absl::Status(status.code(), absl::StrCat(status.message(),
                                                  "; the step had begun to update variables, so some are updated and "
                                                  "others not: restore or initialize them before going on"));
}

absl::Status Executable::AwaitDevices(absl::Time deadline) {
  for (auto& lane : lanes_) {
    if (!lane->asynchronous || runs_[lane->device] == 0) continue;
    RETURN_IF_ERROR(AwaitDevice(lane->device, runs_[lane->device], deadline));
  }
  return absl::OkStatus();
}

absl::Status Executable::Fetch(absl::Time deadline, std::vector<Tensor>& fetches) {
  if (asynchronous_) RETURN_IF_ERROR(AwaitEnd(deadline));
  for (size_t i = 0; i < fetches_.size(); ++i) {
    const Slot& slot = fetches_[i];
    const void* const from = devices_.device(slot.device).asynchronous() ? slot.staged[ran_ % 2].data() : slot.data;
    if (fetches[i].bytes() > 0) std::memcpy(fetches[i].raw(), from, fetches[i].bytes());
  }
  return absl::OkStatus();
}

}  // namespace belfry
