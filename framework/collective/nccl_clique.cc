#include "framework/collective/nccl_clique.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "framework/base/status.h"

namespace belfry {

NcclClique::NcclClique(std::shared_ptr<NcclApi> api, std::vector<Device*> devices, const NcclOptions& options)
    : api_(std::move(api)),
      devices_(std::move(devices)),
      options_(options),
      ranks_(std::make_unique<Rank[]>(devices_.size())) {
  for (int r = 0; r < size(); ++r) ranks_[r].done = devices_[r]->NewEvent();
}

absl::StatusOr<std::unique_ptr<NcclClique>> NcclClique::Create(std::shared_ptr<NcclApi> api,
                                                               std::vector<Device*> devices,
                                                               const NcclOptions& options) {
  auto clique = std::unique_ptr<NcclClique>(new NcclClique(std::move(api), std::move(devices), options));
  const MutexLock lock(clique->mutex_);
  RETURN_IF_ERROR(clique->Build(absl::InfiniteFuture()));
  return clique;
}

NcclClique::~NcclClique() {
  const MutexLock lock(mutex_);
  if (!alive_) return;
  EndCapturedSteps();
  bool clean = !stopped_.load() && !suspect_.load();
  // After a failure finalizing would wait for ever, and who waits without bound here hangs at the end of the program.
  for (int r = 0; clean && r < size(); ++r) clean = !Failed(api_->CommFinalize(*ranks_[r].comm));
  const absl::Time deadline = absl::Now() + options_.drain_timeout;
  for (int r = 0; clean && r < size(); ++r) clean = AwaitReady(r, deadline, true).ok();
  EndAll(clean ? &NcclApi::CommDestroy : &NcclApi::CommAbort);
}

absl::Status NcclClique::Error(NcclResult result, absl::string_view what, NcclComm* comm) {
  const std::string text = absl::StrCat("NCCL failed to ", what, ": ", api_->Describe(result, comm));
  return result == NcclResult::kRemoteError || result == NcclResult::kSystemError ? absl::UnavailableError(text)
                                                                                  : absl::InternalError(text);
}

absl::Status NcclClique::Build(absl::Time deadline) {
  deadline = std::min(deadline, absl::Now() + options_.init_timeout);
  NcclId id;
  if (NcclResult got = api_->GetUniqueId(id); Failed(got)) return Error(got, "make an id", nullptr);
  // One thread makes all ranks, so in one group: each waits for the others. Collectives may not be in it.
  if (NcclResult begun = api_->GroupStart(); Failed(begun)) return Error(begun, "begin a group", nullptr);
  absl::Status status;
  for (int r = 0; r < size() && status.ok(); ++r) {
    ranks_[r].comm = nullptr;
    const NcclResult made = api_->CommInitRank(ranks_[r].comm, size(), id, r, *devices_[r]);
    if (Failed(made)) status = Error(made, absl::StrCat("join ", devices_[r]->name().ToString()), nullptr);
  }
  const NcclResult ended = api_->GroupEnd();
  if (status.ok() && Failed(ended)) status = Error(ended, "connect the GPUs", nullptr);
  alive_ = true;
  for (int r = 0; r < size() && status.ok(); ++r) {
    status = AwaitReady(r, deadline, true);
    if (!status.ok()) {
      status = absl::Status(status.code(), absl::StrCat("connecting ", devices_[r]->name().ToString(),
                                                        " with the other GPUs: ", status.message()));
    }
  }
  if (!status.ok()) {
    EndAll(&NcclApi::CommAbort);
    return status;
  }
  for (int r = 0; r < size(); ++r) built_ = std::max(built_, ranks_[r].issued.load());
  for (int r = 0; r < size(); ++r) {
    ranks_[r].issued.store(built_);
    ranks_[r].queued.store(built_);
  }
  suspect_.store(false);
  drain_ = true;
  return absl::OkStatus();
}

// In one group, since each may wait for the others; its end returns once they are gone, though they are non-blocking.
// While a recording with their operations lives, it does not return.
void NcclClique::EndAll(NcclResult (NcclApi::*call)(NcclComm&)) {
  EndCapturedSteps();
  const bool grouped = !Failed(api_->GroupStart());
  for (int r = 0; r < size(); ++r) {
    if (ranks_[r].comm != nullptr) ((*api_).*call)(*ranks_[r].comm);
    ranks_[r].comm = nullptr;
  }
  if (grouped) api_->GroupEnd();
  alive_ = false;
}

uint32_t NcclClique::AddCollective(std::string name) {
  const MutexLock lock(mutex_);
  names_.push_back(std::move(name));
  return static_cast<uint32_t>(names_.size());
}

std::string NcclClique::LastCollective(int rank) {
  const uint32_t collective = ranks_[rank].collective.load();
  const MutexLock lock(mutex_);
  return collective == 0 ? "none" : absl::StrCat("'", names_[collective - 1], "'");
}

void NcclClique::Follow(const std::shared_ptr<CapturedStep>& step) {
  const MutexLock lock(mutex_);
  const auto done = [&](const std::weak_ptr<CapturedStep>& other) {
    const auto followed = other.lock();
    return followed == nullptr || followed == step;
  };
  captured_steps_.erase(std::remove_if(captured_steps_.begin(), captured_steps_.end(), done), captured_steps_.end());
  captured_steps_.push_back(step);
}

void NcclClique::EndCapturedSteps() {
  for (const auto& step : captured_steps_) {
    if (const auto live = step.lock(); live != nullptr) live->End();
  }
  captured_steps_.clear();
}

// Either the last user sees that the clique is stopped, or who stops it sees that nobody is there, or both: each writes
// before it reads, sequentially consistent.
void NcclClique::Leave(bool done) {
  if (!done) suspect_.store(true);
  if (users_.fetch_sub(1) == 1 && stopped_.load()) AbortIfUneven();
}

void NcclClique::Stop(const absl::Status& why) {
  {
    const MutexLock lock(mutex_);
    if (!stopped_.load() || why_.ok()) why_ = why;
    stopped_.store(true);
  }
  AbortIfUneven();
}

absl::Status NcclClique::Why() {
  const MutexLock lock(mutex_);
  return why_.ok() ? absl::CancelledError("the step was cancelled") : why_;
}

// What all ranks were given ends by itself, and may belong to an earlier step that is all right.
void NcclClique::Drain() {
  uint64_t all = ranks_[0].queued.load();
  for (int r = 1; r < size(); ++r) all = std::min(all, ranks_[r].queued.load());
  const absl::Time deadline = absl::Now() + options_.drain_timeout;
  for (int r = 0; r < size() && all != built_; ++r) {
    if (!ranks_[r].done->Wait(static_cast<uint32_t>(all), deadline).ok()) return;
  }
  for (const auto& step : captured_steps_) {
    const auto live = step.lock();
    if (live != nullptr && !live->Await(deadline).ok()) return;
  }
}

// Once nobody is in the clique. A GPU that was given a collective which another was not waits for it for ever, and so
// would who synchronises with it: only an abort of all communicators ends that.
void NcclClique::AbortIfUneven() {
  const MutexLock lock(mutex_);
  if (!stopped_.load() || !alive_ || users_.load() != 0) return;
  bool even = !suspect_.load();
  for (int r = 1; r < size(); ++r) even = even && ranks_[r].issued.load() == ranks_[0].issued.load();
  if (even) return;
  if (drain_) Drain();
  aborts_.fetch_add(1);
  EndAll(&NcclApi::CommAbort);
}

void NcclClique::Resume() {
  const MutexLock lock(mutex_);
  if (!stopped_.load()) return;
  for (int r = 0; r < size(); ++r) ranks_[r].claimed.store(0);
  for (auto& place : order_) place.store(0);
  why_ = absl::OkStatus();
  if (alive_ && !suspect_.load()) {
    stopped_.store(false);
  } else {
    stale_.store(true);
  }
}

absl::Status NcclClique::Prepare(absl::Time deadline) {
  if (!stale_.load()) return absl::OkStatus();
  const MutexLock lock(mutex_);
  if (alive_) return absl::UnavailableError("NCCL failed in another step, which has not ended yet");
  absl::Status status = Build(deadline);
  if (!status.ok()) {
    return absl::Status(status.code(),
                        absl::StrCat("after a failure NCCL was to be started again: ", status.message()));
  }
  stopped_.store(false);
  stale_.store(false);  // last: Claim looks at it first
  return absl::OkStatus();
}

bool NcclClique::Idle() {
  for (int r = 0; r < size(); ++r) {
    const uint64_t queued = ranks_[r].queued.load();
    if (ranks_[r].issued.load() != queued) return false;
    if (queued > 0 && !ranks_[r].done->Wait(static_cast<uint32_t>(queued), absl::InfinitePast()).ok()) return false;
  }
  const MutexLock lock(mutex_);
  return std::all_of(captured_steps_.begin(), captured_steps_.end(), [](const std::weak_ptr<CapturedStep>& step) {
    const auto live = step.lock();
    return live == nullptr || live->Await(absl::InfinitePast()).ok();
  });
}

absl::Status NcclClique::Check(bool give_up, int& rank) {
  rank = -1;
  absl::Status status;
  {
    Use use(*this, 0);
    use.Done();
    if (stopped_.load()) return absl::OkStatus();
    for (int r = 0; r < size() && status.ok(); ++r) {
      NcclResult state = NcclResult::kSuccess;
      if (ranks_[r].busy.test_and_set(std::memory_order_acquire)) continue;  // Its thread asks by itself.
      const NcclResult asked = api_->CommGetAsyncError(*ranks_[r].comm, state);
      ranks_[r].busy.clear(std::memory_order_release);
      if (!Failed(asked) && !Failed(state)) continue;
      status = Error(Failed(asked) ? asked : state, "go on", ranks_[r].comm);
      rank = r;
    }
    if (status.ok() && give_up && !Idle()) {
      status = absl::DeadlineExceededError("collectives were under way, and are aborted");
    }
  }
  if (status.ok()) return status;
  suspect_.store(true);
  {
    const MutexLock lock(mutex_);
    drain_ = false;
  }
  Stop(status);
  Resume();
  return status;
}

}  // namespace belfry
