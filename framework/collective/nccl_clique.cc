#include "framework/collective/nccl_clique.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/base/steady_time.h"

namespace belfry {

// The states and their order. usable -> stopped (Stop) -> usable again (Resume) if every rank was given the same
// groups; otherwise stopped -> aborted (AbortIfUneven) -> stale (Resume) -> usable (Prepare builds). Users read
// stopped_, suspect_ and stale_ without a lock; stopped_ and stale_ change, and communicators end, under mutex_ only. A
// use costs two atomic additions and a few loads; no lock is on the path of a step that succeeds.
NcclClique::NcclClique(std::shared_ptr<NcclApi> api, std::vector<Device*> devices, const NcclOptions& options,
                       const NcclSpan& span)
    : api_(std::move(api)),
      devices_(std::move(devices)),
      options_(options),
      span_(span),
      ranks_(std::make_unique<Rank[]>(devices_.size())) {
  for (int r = 0; r < size(); ++r) ranks_[r].done = devices_[r]->NewEvent();
}

absl::StatusOr<std::unique_ptr<NcclClique>> NcclClique::Create(std::shared_ptr<NcclApi> api,
                                                               std::vector<Device*> devices, const NcclOptions& options,
                                                               const NcclSpan& span) {
  auto clique = std::unique_ptr<NcclClique>(new NcclClique(std::move(api), std::move(devices), options, span));
  const MutexLock lock(clique->mutex_);
  RETURN_IF_ERROR(clique->Build(absl::InfiniteFuture()));
  return clique;
}

NcclClique::~NcclClique() {
  const MutexLock lock(mutex_);
  if (!alive_) return;
  EndCapturedSteps();
  bool clean = !stopped_.load() && !suspect_.load();
  // After a failure finalizing would wait forever, and an unbounded wait here would hang the program at its end.
  for (int r = 0; clean && r < size(); ++r) clean = !Failed(api_->CommFinalize(*ranks_[r].comm));
  const absl::Time deadline = SteadyNow() + options_.drain_timeout;
  for (int r = 0; clean && r < size(); ++r) clean = AwaitReady(r, deadline, true).ok();
  EndAll(clean ? &NcclApi::CommDestroy : &NcclApi::CommAbort);
}

absl::Status NcclClique::Error(NcclResult result, absl::string_view what, NcclComm* comm) {
  const std::string text = absl::StrCat("NCCL failed to ", what, ": ", api_->Describe(result, comm));
  return result == NcclResult::kRemoteError || result == NcclResult::kSystemError ? absl::UnavailableError(text)
                                                                                  : absl::InternalError(text);
}

// Every process sends to every other, although only the id of task 0 is needed: whoever is missing is then named here
// by all, and NCCL, which could not name it, begins with all processes there. The message of a process that cannot go
// on is World::Fail.
absl::Status NcclClique::MeetOthers(NcclId& id) {
  World& world = *span_.world;
  std::vector<NcclId> ids(world.size());
  Transfers transfers;
  for (int r = 0; r < world.size(); ++r) {
    if (r == world.rank()) continue;
    transfers.Send(r, id.bytes);
    transfers.Receive(r, absl::MakeSpan(ids[r].bytes));
  }
  const absl::Status status = world.Exchange(span_.tag, transfers, SteadyNow() + options_.meet_timeout, nullptr);
  if (!status.ok()) {
    return absl::Status(status.code(), absl::StrCat("meeting the other processes to start NCCL: ", status.message()));
  }
  if (world.rank() != 0) id = ids[0];
  return absl::OkStatus();
}

absl::Status NcclClique::Build(absl::Time deadline) {
  NcclId id;
  if (!spans_processes() || span_.world->rank() == 0) {
    if (NcclResult got = api_->GetUniqueId(id); Failed(got)) return Error(got, "create a unique id", nullptr);
  }
  if (spans_processes()) RETURN_IF_ERROR(MeetOthers(id));
  deadline = std::min(deadline, SteadyNow() + options_.init_timeout);
  const int all = spans_processes() ? span_.size : size();
  // One thread creates all ranks and each waits for the others, so they must be in one group. A group that creates
  // communicators may not contain collectives.
  if (NcclResult begun = api_->GroupStart(); Failed(begun)) return Error(begun, "start a group", nullptr);
  absl::Status status;
  for (int r = 0; r < size() && status.ok(); ++r) {
    ranks_[r].comm = nullptr;
    const NcclResult made =
        api_->CommInitRank(ranks_[r].comm, all, id, span_.first + r, *devices_[r], options_.blocking);
    if (Failed(made)) status = Error(made, absl::StrCat("join ", devices_[r]->name().ToString()), nullptr);
  }
  const NcclResult ended = api_->GroupEnd();
  if (status.ok() && Failed(ended)) status = Error(ended, "connect the GPUs", nullptr);
  alive_ = true;
  for (int r = 0; r < size() && status.ok(); ++r) {
    status = AwaitReady(r, deadline, true);
    if (!status.ok()) {
      const bool hint = spans_processes() && OthersFailed().ok();
      status = absl::Status(
          status.code(),
          absl::StrCat("connecting ", devices_[r]->name().ToString(), " with the other GPUs: ", status.message(),
                       hint ? " (processes of one machine must use different cards; NCCL_DEBUG=INFO "
                              "says more, and NCCL_SOCKET_IFNAME chooses the network)"
                            : ""));
    }
  }
  if (!status.ok()) {
    EndAll(&NcclApi::CommAbort);
    return status;
  }
  // An aborted clique may have left ranks with different counts. All restart from the largest one, so that counts are
  // equal again and the events' run numbers still only go up.
  for (int r = 0; r < size(); ++r) built_ = std::max(built_, ranks_[r].issued.load());
  for (int r = 0; r < size(); ++r) {
    ranks_[r].issued.store(built_);
    ranks_[r].queued.store(built_);
  }
  suspect_.store(false);
  drain_ = true;
  return absl::OkStatus();
}

// In one group, since each end may wait for the others. GroupEnd returns once the communicators are gone, although they
// are non-blocking. It would not return while a captured step with their operations exists; hence EndCapturedSteps.
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

// Invariant: a stopped clique is settled once its last user has left, by that user or by the caller of Stop, or by
// both. It holds because the user decrements users_ and then reads stopped_, while Stop sets stopped_ and then reads
// users_: in a sequentially consistent order at least one of them sees the other's write. The constructor of Use and
// Begin pair with Stop in the same way, so no new user slips in behind an abort.
void NcclClique::Leave(bool done) {
  if (!done) suspect_.store(true);
  if (users_.fetch_sub(1) == 1 && stopped_.load()) AbortIfUneven();
}

void NcclClique::Stop(const absl::Status& why) {
  {
    const MutexLock lock(mutex_);
    if (!stopped_.load() || why_.ok()) why_ = why;
    if (first_failure_.ok()) first_failure_ = why;
    stopped_.store(true);
  }
  AbortIfUneven();
}

absl::Status NcclClique::Why() {
  const MutexLock lock(mutex_);
  return why_.ok() ? absl::CancelledError("the step was cancelled") : why_;
}

// Waits, within a limit, for what all ranks were given: it ends by itself, and may belong to an earlier step that is
// fine and would lose its result. `all` is the last group that is in every rank's stream.
void NcclClique::Drain() {
  uint64_t all = ranks_[0].queued.load();
  for (int r = 1; r < size(); ++r) all = std::min(all, ranks_[r].queued.load());
  const absl::Time deadline = SteadyNow() + options_.drain_timeout;
  for (int r = 0; r < size() && all != built_; ++r) {
    if (!ranks_[r].done->Wait(static_cast<uint32_t>(all), deadline).ok()) return;
  }
  for (const auto& step : captured_steps_) {
    const auto live = step.lock();
    if (live != nullptr && !live->Await(deadline).ok()) return;
  }
}

// Aborts the communicators if an operation may have reached only some of the ranks, once nobody uses the clique. A GPU
// that was given such a collective waits for the missing ranks forever, and so would anybody who synchronises with it;
// only aborting all communicators ends that. If all ranks were given equally many groups and no user left early, all
// operations complete and the communicators stay. Nothing is known of the ranks of other processes, so with them an
// operation may always be uneven; it gets the time of Drain.
void NcclClique::AbortIfUneven() {
  const MutexLock lock(mutex_);
  if (!stopped_.load() || !alive_ || users_.load() != 0) return;
  bool even = !suspect_.load() && !spans_processes();
  for (int r = 1; r < size(); ++r) even = even && ranks_[r].issued.load() == ranks_[0].issued.load();
  if (even) return;
  if (drain_ && OthersFailed().ok()) Drain();
  aborts_.fetch_add(1);
  EndAll(&NcclApi::CommAbort);
}

void NcclClique::Resume() {
  const MutexLock lock(mutex_);
  if (!stopped_.load()) return;
  // Nobody is in the clique, so all ranks restart their count of places together.
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
  if (!stale_.load()) return OthersFailed();
  const MutexLock lock(mutex_);
  if (spans_processes()) {
    return absl::UnavailableError(
        absl::StrCat("NCCL is not started again among several processes after a failure; end all of them, and resume "
                     "the run from its last checkpoint. The failure was: ",
                     first_failure_.message()));
  }
  if (alive_) return absl::UnavailableError("NCCL failed in another step, which has not ended yet");
  absl::Status status = Build(deadline);
  if (!status.ok()) {
    return absl::Status(status.code(),
                        absl::StrCat("NCCL could not be started again after a failure: ", status.message()));
  }
  stopped_.store(false);
  stale_.store(false);  // last: Claim reads it first, and must not find a clique that is neither stale nor running
  return absl::OkStatus();
}

// A rank is idle if each group begun is in its stream and the last one is done; replays of captured steps must be done
// too.
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
    status = OthersFailed();
    for (int r = 0; r < size() && status.ok(); ++r) {
      NcclResult state = NcclResult::kSuccess;
      if (ranks_[r].busy.test_and_set(std::memory_order_acquire)) continue;  // Its holder polls for errors itself.
      const NcclResult asked = api_->CommGetAsyncError(*ranks_[r].comm, state);
      ranks_[r].busy.clear(std::memory_order_release);
      if (!Failed(asked) && !Failed(state)) continue;
      status = Error(Failed(asked) ? asked : state, "complete its collectives", ranks_[r].comm);
      rank = r;
    }
    if (status.ok() && give_up && !Idle()) {
      status = absl::DeadlineExceededError(
          spans_processes() ? absl::StrCat("collectives among the GPUs of ", span_.world->size(),
                                           " processes were in progress and have been aborted; the last one issued "
                                           "here was ",
                                           LastCollective(0))
                            : "collectives were in progress and have been aborted");
    }
  }
  if (status.ok()) return status;
  suspect_.store(true);
  // An operation that failed may never end, so AbortIfUneven must not wait for it.
  {
    const MutexLock lock(mutex_);
    drain_ = false;
  }
  Stop(status);
  Resume();
  return status;
}

}  // namespace belfry
