// The communicators of NCCL among a set of GPUs, and who may use them when.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "framework/base/mutex.h"
#include "framework/collective/capture.h"
#include "framework/collective/nccl_api.h"

namespace belfry {

struct NcclOptions {
  absl::Duration init_timeout = absl::Minutes(2);  // of making communicators
  // For what is under way on all ranks to end, before communicators are aborted or destroyed.
  absl::Duration drain_timeout = absl::Seconds(5);
};

// One communicator for each of a few distinct GPUs, shared by all collectives among them, because NCCL runs one
// operation after the other only within a communicator: kernels of two that were launched in differing order on two
// GPUs wait for each other for ever.
//
// Its life: usable; stopped by the first failure or Stop(), with all users told to leave; then, once nobody is in it,
// aborted if an operation may have reached only some of the ranks, else as good as new after Resume(). An aborted
// clique is built again by the first Prepare() after Resume(). Use, Claim: one thread at a time for each rank; the
// others: any thread. What is used is not locked; failures are.
//
// A recording that holds operations of the communicators counts in them, and NCCL waits for its end before they end,
// by an abort, too. So recordings are ended first; and who records stays in the clique until it is done.
class NcclClique {
 public:
  static absl::StatusOr<std::unique_ptr<NcclClique>> Create(std::shared_ptr<NcclApi> api, std::vector<Device*> devices,
                                                            const NcclOptions& options);
  ~NcclClique();

  int size() const { return static_cast<int>(devices_.size()); }
  Device& device(int rank) const { return *devices_[rank]; }

  // A number for a further collective, which `name` is for errors.
  uint32_t AddCollective(std::string name);
  // Says that `rank` meets a collective next. An error if another rank met another one at this place.
  absl::Status Claim(int rank, uint32_t collective);

  // A rank's stay in the clique, as short as one collective. Nobody aborts communicators while it lasts. If it ends
  // without Done(), the clique is not to be trusted, and the next Stop aborts it.
  class Use {
   public:
    Use(NcclClique& clique, int rank) : clique_(clique), rank_(rank) { clique_.users_.fetch_add(1); }
    ~Use() { clique_.Leave(done_); }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    // OK if the clique is usable and no asynchronous error is known; Why() if it is stopped.
    absl::Status Begin(absl::Time deadline);
    // Makes `calls` in one group, and returns once they are in the stream's queue.
    absl::Status Group(Stream& stream, absl::Time deadline, absl::FunctionRef<NcclResult(NcclApi&, NcclComm*)> calls);
    // The same for all ranks by one thread, while their streams record: makes each rank's `calls` in one group, and
    // returns once they are part of the recording. Nothing runs, so nothing is counted.
    absl::Status Capture(absl::Time deadline, absl::FunctionRef<NcclResult(NcclApi&, int, NcclComm*)> calls);
    void Done() { done_ = true; }

   private:
    NcclClique& clique_;
    const int rank_;
    bool done_ = false;
  };

  // From now on replays of `recording` are under way on all ranks, too, and it is ended before communicators are.
  void Follow(const std::shared_ptr<CapturedStep>& step);

  // Stops the clique, if it is not stopped yet: all users leave.
  void Stop(const absl::Status& why);
  bool stopped() const { return stopped_.load(); }
  // What it was stopped for; Cancelled if for nothing in particular.
  absl::Status Why();
  // The end of a failure. REQUIRES: nobody is in it.
  void Resume();
  // Builds communicators again if they were aborted. One thread at a time.
  absl::Status Prepare(absl::Time deadline);
  // Looks for asynchronous errors; aborts on one, and if `give_up` and something is under way on a device. `rank`:
  // whose error it is, or -1. Does not wait.
  absl::Status Check(bool give_up, int& rank);
  uint64_t aborts() const { return aborts_.load(); }  // as of Collective
  // The collective that was given to `rank` last, or none.
  std::string LastCollective(int rank);

 private:
  struct Rank {
    NcclComm* comm = nullptr;
    std::atomic_flag busy;                // a thread is in a call of the communicator
    std::unique_ptr<Event> done;          // counts `queued`
    std::atomic<uint64_t> issued{0};      // groups that were begun
    std::atomic<uint64_t> queued{0};      // the last of them that is in its stream
    std::atomic<uint64_t> claimed{0};     // collectives that were met, since the last failure
    std::atomic<uint32_t> collective{0};  // the last one that was met
  };
  static constexpr size_t kOrder = 8;  // more than ranks are ever apart

  NcclClique(std::shared_ptr<NcclApi> api, std::vector<Device*> devices, const NcclOptions& options);
  absl::Status Build(absl::Time deadline) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status AwaitAll(absl::Time deadline);
  void AbortIfUneven();
  bool Idle();
  void Drain() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndCapturedSteps() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndAll(NcclResult (NcclApi::*call)(NcclComm&)) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Leave(bool done);
  absl::Status AwaitReady(int rank, absl::Time deadline, bool building);
  absl::Status Error(NcclResult result, absl::string_view what, NcclComm* comm);

  const std::shared_ptr<NcclApi> api_;
  const std::vector<Device*> devices_;
  const NcclOptions options_;
  std::unique_ptr<Rank[]> ranks_;
  std::array<std::atomic<uint64_t>, kOrder> order_{};  // by place modulo kOrder: place + 1 and the collective there
  std::atomic<int> users_{0};
  std::atomic<bool> stopped_{false};
  std::atomic<bool> suspect_{false};  // communicators, of what a user left undone
  std::atomic<bool> stale_{false};    // aborted, and to be built again
  std::atomic<uint64_t> aborts_{0};
  Mutex mutex_;
  bool alive_ ABSL_GUARDED_BY(mutex_) = false;  // there are communicators
  bool drain_ ABSL_GUARDED_BY(mutex_) = true;   // what is under way may still end
  uint64_t built_ ABSL_GUARDED_BY(mutex_) = 0;  // groups before these communicators
  absl::Status why_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> names_ ABSL_GUARDED_BY(mutex_);  // by collective
  std::vector<std::weak_ptr<CapturedStep>> captured_steps_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace belfry
