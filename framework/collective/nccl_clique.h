// The NCCL communicators among a set of GPUs, of this process or of several, and the rules for using and ending them.
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
#include "framework/collective/world.h"

namespace belfry {

struct NcclOptions {
  absl::Duration meet_timeout = absl::Minutes(5);  // for all processes to come to create communicators among them
  absl::Duration init_timeout = absl::Minutes(2);  // for creating communicators
  // Time for operations that all ranks were given to finish, before communicators are aborted or destroyed.
  absl::Duration drain_timeout = absl::Seconds(5);
  // Communicators whose calls return when they are done. A failure then ends only after every call has returned. If
  // NCCL_COMM_BLOCKING is set to 0 or 1, NCCL obeys that.
  bool blocking = false;
};

// The place of a clique's GPUs among the GPUs of several processes.
struct NcclSpan {
  World* world = nullptr;   // borrowed; null: all GPUs are of this process
  int tag = 0;              // of the world, for the clique alone
  int first = 0, size = 0;  // the number of this process's first GPU among all of them, and their number
};

// One communicator for each of several distinct GPUs, shared by all collectives among them. They must share it, because
// NCCL orders operations only within a communicator: if kernels of two communicators are launched in different orders
// on two GPUs, they wait for each other forever.
//
// Life cycle: usable; stopped by the first failure or by Stop(), which tells all users to leave; then, once nobody is
// in it, aborted if an operation may have reached only some of the ranks, or else usable again after Resume(). An
// aborted clique is rebuilt by the first Prepare() after Resume(). One that spans processes is always aborted and never
// rebuilt, since the others may be anywhere: its first failure is the end of the run. Use and Claim: one thread at a
// time per rank. All other calls: any thread. Use takes no lock; failures do.
//
// NCCL counts a captured step as a user of the communicators whose operations it holds, and ending them, even by an
// abort, waits for it to go. So captured steps are ended first, and a thread that captures stays in the clique until it
// is done.
//
// If it spans processes, `rank` in all calls is that among the GPUs of this process, and Create meets the others: each
// makes the same cliques in the same order. Whatever waits here also ends with the error of World::Stopped.
class NcclClique {
 public:
  static absl::StatusOr<std::unique_ptr<NcclClique>> Create(std::shared_ptr<NcclApi> api, std::vector<Device*> devices,
                                                            const NcclOptions& options, const NcclSpan& span = {});
  ~NcclClique();

  int size() const { return static_cast<int>(devices_.size()); }  // in this process
  bool spans_processes() const { return span_.world != nullptr; }
  Device& device(int rank) const { return *devices_[rank]; }

  // Registers a collective and returns its number. `name` is for errors.
  uint32_t AddCollective(std::string name);
  // Announces that `rank` meets `collective` next. An error if another rank met a different one at this place.
  absl::Status Claim(int rank, uint32_t collective);

  // A rank's stay in the clique, for the duration of one collective. Communicators are not aborted meanwhile. If it
  // ends without Done(), the clique counts as damaged, and Stop aborts it.
  class Use {
   public:
    Use(NcclClique& clique, int rank) : clique_(clique), rank_(rank) { clique_.users_.fetch_add(1); }
    ~Use() { clique_.Leave(done_); }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    // OK if the clique is usable and no asynchronous error is known; Why() if it is stopped.
    absl::Status Begin(absl::Time deadline);
    // Makes `calls` in one group, and returns once their operations are in the stream's queue.
    absl::Status Group(Stream& stream, absl::Time deadline, absl::FunctionRef<NcclResult(NcclApi&, NcclComm*)> calls);
    // Group for all ranks by one thread, while their streams are being captured: makes each rank's `calls` in one
    // group, and returns once they are part of the capture. Nothing runs, so nothing is counted as issued.
    absl::Status Capture(absl::Time deadline, absl::FunctionRef<NcclResult(NcclApi&, int, NcclComm*)> calls);
    void Done() { done_ = true; }

   private:
    NcclClique& clique_;
    const int rank_;
    bool done_ = false;
  };

  // From now on, replays of `step` count as operations of all ranks, and it is ended before communicators are.
  void Follow(const std::shared_ptr<CapturedStep>& step);

  // Stops the clique, if it is not stopped yet, so that all users leave.
  void Stop(const absl::Status& why);
  bool stopped() const { return stopped_.load(); }
  // The reason it was stopped; Cancelled if none was given.
  absl::Status Why();
  // Ends the handling of a failure. REQUIRES: nobody is in the clique.
  void Resume();
  // Rebuilds aborted communicators. One thread at a time. If the clique spans processes: Unavailable with the
  // first failure if they were aborted, and the error of World::Stopped.
  absl::Status Prepare(absl::Time deadline);
  // Looks for asynchronous errors, and aborts the clique if there is one, or if `give_up` and an operation is still in
  // progress on a device. `rank`: the rank with the error, or -1. Does not block.
  absl::Status Check(bool give_up, int& rank);
  uint64_t aborts() const { return aborts_.load(); }  // as in Collective
  // The name of the last collective that was given to `rank`, in quotes, or "none".
  std::string LastCollective(int rank);

 private:
  struct Rank {
    NcclComm* comm = nullptr;
    std::atomic_flag busy;                // held by the thread that is in a call of the communicator
    std::unique_ptr<Event> done;          // counts `queued`
    std::atomic<uint64_t> issued{0};      // groups begun
    std::atomic<uint64_t> queued{0};      // the last group that is in the stream
    std::atomic<uint64_t> claimed{0};     // collectives met since the last failure
    std::atomic<uint32_t> collective{0};  // the last collective met
  };
  static constexpr size_t kOrder = 8;  // more places than ranks are ever apart

  NcclClique(std::shared_ptr<NcclApi> api, std::vector<Device*> devices, const NcclOptions& options,
             const NcclSpan& span);
  absl::Status MeetOthers(NcclId& id);
  absl::Status OthersFailed() const { return spans_processes() ? span_.world->Stopped() : absl::OkStatus(); }
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
  const NcclSpan span_;
  std::unique_ptr<Rank[]> ranks_;
  std::array<std::atomic<uint64_t>, kOrder> order_{};  // at [place % kOrder]: the place, from 1, and the collective met
                                                       // there
  std::atomic<int> users_{0};
  std::atomic<bool> stopped_{false};
  std::atomic<bool> suspect_{false};  // a user left something undone, so communicators may be damaged
  std::atomic<bool> stale_{false};    // aborted, and to be rebuilt
  std::atomic<uint64_t> aborts_{0};
  Mutex mutex_;
  bool alive_ ABSL_GUARDED_BY(mutex_) = false;  // communicators exist
  bool drain_ ABSL_GUARDED_BY(mutex_) = true;   // operations in progress may still finish
  uint64_t built_ ABSL_GUARDED_BY(mutex_) = 0;  // number of groups before these communicators were built
  absl::Status why_ ABSL_GUARDED_BY(mutex_);
  absl::Status first_failure_ ABSL_GUARDED_BY(mutex_);      // never cleared
  std::vector<std::string> names_ ABSL_GUARDED_BY(mutex_);  // by collective, from number 1
  std::vector<std::weak_ptr<CapturedStep>> captured_steps_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace belfry
