// The calls of one rank in the clique, or of a thread that captures for all ranks.
#include <algorithm>
#include <deque>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "framework/base/status.h"
#include "framework/base/steady_time.h"
#include "framework/collective/nccl_clique.h"

namespace belfry {
namespace {

constexpr int kCollectiveBits = 24;
// Launching a group takes NCCL some tens of microseconds, on a thread of its own.
constexpr int kYields = 200;
constexpr absl::Duration kNap = absl::Microseconds(20);

// Holds a communicator for one call. Even asking for its state changes a communicator after errors, so no two calls may
// overlap.
class Call {
 public:
  explicit Call(std::atomic_flag& busy) : busy_(busy) {
    while (busy_.test_and_set(std::memory_order_acquire)) std::this_thread::yield();
  }
  ~Call() { busy_.clear(std::memory_order_release); }

 private:
  std::atomic_flag& busy_;
};

}  // namespace

absl::Status NcclClique::AwaitReady(int rank, absl::Time deadline, bool building) {
  NcclComm* const comm = ranks_[rank].comm;
  if (comm == nullptr) return absl::InternalError("NCCL created no communicator");
  for (int64_t turn = 0;; ++turn) {
    NcclResult asked, state = NcclResult::kSuccess;
    {
      const Call call(ranks_[rank].busy);
      asked = api_->CommGetAsyncError(*comm, state);
    }
    if (Failed(asked)) return Error(asked, "report its state", comm);
    if (state == NcclResult::kSuccess) return absl::OkStatus();
    if (Failed(state)) return Error(state, "become ready", comm);
    if (!building && stopped_.load()) return Why();
    RETURN_IF_ERROR(OthersFailed());
    if (deadline != absl::InfiniteFuture() && SteadyNow() >= deadline) {
      return absl::DeadlineExceededError("NCCL was still busy at the deadline");
    }
    if (turn < kYields) {
      std::this_thread::yield();
    } else {
      absl::SleepFor(kNap);
    }
  }
}

absl::Status NcclClique::Claim(int rank, uint32_t collective) {
  if (!stale_.load() && stopped_.load()) return Why();
  const uint64_t place = ranks_[rank].claimed.fetch_add(1) + 1;
  ranks_[rank].collective.store(collective);
  std::atomic<uint64_t>& slot = order_[place % kOrder];
  const uint64_t mine = place << kCollectiveBits | collective;
  uint64_t there = slot.load();
  while (there >> kCollectiveBits < place) {
    if (slot.compare_exchange_weak(there, mine)) return absl::OkStatus();
  }
  if (there == mine) return absl::OkStatus();
  const MutexLock lock(mutex_);
  const uint64_t other = there & ((uint64_t{1} << kCollectiveBits) - 1);
  return absl::InternalError(absl::StrCat("the GPUs do not reach collectives in the same order: another GPU was at '",
                                          names_[other - 1], "'; concurrent steps must not share NCCL"));
}

absl::Status NcclClique::Use::Begin(absl::Time deadline) {
  if (clique_.stopped_.load()) {
    done_ = true;
    return clique_.Why();
  }
  return clique_.AwaitReady(rank_, deadline, false);
}

absl::Status NcclClique::Use::Group(Stream& stream, absl::Time deadline,
                                    absl::FunctionRef<NcclResult(NcclApi&, NcclComm*)> calls) {
  Rank& rank = clique_.ranks_[rank_];
  NcclApi& api = *clique_.api_;
  // Each rank has its own thread, so a group holds this rank's calls only, and none of them waits for another rank.
  NcclResult called, ended;
  {
    const Call call(rank.busy);
    if (NcclResult begun = api.GroupStart(); Failed(begun)) return clique_.Error(begun, "start a group", rank.comm);
    called = calls(api, rank.comm);
    ended = api.GroupEnd();
  }
  const uint64_t issued = rank.issued.fetch_add(1) + 1;
  if (Failed(called)) return clique_.Error(called, "enqueue the collective", rank.comm);
  if (Failed(ended)) return clique_.Error(ended, "launch the collective", rank.comm);
  // Until NCCL is ready the stream does not hold the collective, so an event recorded there would not wait for it.
  RETURN_IF_ERROR(clique_.AwaitReady(rank_, deadline, false));
  stream.Record(*rank.done, static_cast<uint32_t>(issued));
  rank.queued.store(issued);
  return absl::OkStatus();
}

absl::Status NcclClique::AwaitAll(absl::Time deadline) {
  absl::Status status;
  for (int r = 0; r < size(); ++r) status.Update(AwaitReady(r, deadline, true));
  return status;
}

absl::Status NcclClique::Use::Capture(absl::Time deadline,
                                      absl::FunctionRef<NcclResult(NcclApi&, int, NcclComm*)> calls) {
  NcclApi& api = *clique_.api_;
  deadline = std::min(deadline, SteadyNow() + clique_.options_.init_timeout);
  RETURN_IF_ERROR(clique_.AwaitAll(deadline));
  NcclResult called = NcclResult::kSuccess, ended;
  {
    std::deque<Call> all;
    for (int r = 0; r < clique_.size(); ++r) all.emplace_back(clique_.ranks_[r].busy);
    if (NcclResult begun = api.GroupStart(); Failed(begun)) return clique_.Error(begun, "start a group", nullptr);
    for (int r = 0; r < clique_.size() && !Failed(called); ++r) called = calls(api, r, clique_.ranks_[r].comm);
    ended = api.GroupEnd();
  }
  // Needed even after a failure: until then one of NCCL's threads still adds work to the streams.
  const absl::Status ready = clique_.AwaitAll(deadline);
  if (Failed(called)) return clique_.Error(called, "enqueue the collective", nullptr);
  if (Failed(ended)) return clique_.Error(ended, "capture the collective", nullptr);
  return ready;
}

}  // namespace belfry
