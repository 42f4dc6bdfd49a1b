// A World over MPI.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "framework/base/launcher.h"
#include "framework/base/mutex.h"
#include "framework/collective/mpi/mpi_api.h"
#include "framework/collective/mpi/mpi_watcher.h"
#include "framework/collective/world.h"

namespace belfry {

// Invariant: the n-th message that a process sends to another with a tag is the n-th that the other receives from it
// with that tag, because MPI keeps the order of the messages between two processes with one tag, and every process
// makes the same exchanges. So a message needs no number, and one that arrives early stays with MPI until it is asked
// for.
//
// MPI is called by several threads (the main one, the collectives', the watcher's), one call at a time under
// mpi_mutex_; no call waits, so the lock is held for microseconds.
class MpiWorld final : public World {
 public:
  MpiWorld(std::unique_ptr<MpiApi> mpi, absl::Duration warn_after)
      : rank_(mpi->rank()),
        local_rank_(mpi->local_rank()),
        longest_(mpi->longest()),
        library_(mpi->library()),
        warn_after_(warn_after),
        mpi_(std::move(mpi)),
        processes_(mpi_->size()) {}

  // Exchanges hosts and process numbers, and starts the watcher.
  absl::Status Connect(const Launch& launch, absl::string_view build, absl::Time deadline);

  int rank() const override { return rank_; }
  const std::vector<WorldProcess>& processes() const override { return processes_; }
  std::string library() const override { return library_; }
  int NewTag() override { return next_tag_.fetch_add(1); }
  absl::Status Exchange(int tag, Transfers& transfers, absl::Time deadline,
                        const std::function<bool()>& cancelled) override;
  absl::Duration waited() const override { return absl::Nanoseconds(waited_.load(std::memory_order_relaxed)); }
  void SetPosition(std::function<std::string()> position) override;
  absl::Status Stopped() override;
  std::string RollCall() override;
  void Fail(const absl::Status& status) override;
  absl::Status Close(absl::Time deadline, int exit_status) override;

 private:
  void Stop(const absl::Status& status);
  absl::Status Begin(int tag, Transfers& transfers);
  absl::Status Await(Transfers& transfers, absl::Time deadline, const std::function<bool()>& cancelled);
  absl::StatusOr<bool> Advance(std::vector<Transfers::Transfer>& list, size_t& left);
  absl::StatusOr<bool> Test(MpiApi::Request request);
  // Says that an exchange has been waiting for long, and where each process is.
  void Warn(const Transfers& transfers, absl::Duration waited);
  // The names of these processes; of many, the first.
  std::string Names(std::vector<int> ranks) const;
  // Gives up the rest of failed transfers. False: MPI still uses their memory.
  bool GiveUp(Transfers& transfers);
  // Calls the roll, tells the others that this process ends, and never calls MPI again.
  void LeaveMpi(const std::string& reason);

  const int rank_, local_rank_;
  const size_t longest_;  // message, in bytes
  const std::string library_;
  const absl::Duration warn_after_;
  Mutex mpi_mutex_;
  const std::unique_ptr<MpiApi> mpi_;  // its calls are guarded by mpi_mutex_
  std::vector<WorldProcess> processes_;
  std::atomic<int> next_tag_{MpiWatcher::kTag + 1};
  std::atomic<int64_t> waited_{0};  // in ns
  // The process for which an exchange waits, or waited in vain; -1: none. Of several exchanges, that which looked last.
  std::atomic<int> awaited_{-1};
  std::atomic<bool> stopped_{false};
  bool left_mpi_ ABSL_GUARDED_BY(mpi_mutex_) = false;
  Mutex mutex_;
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  std::string told_ ABSL_GUARDED_BY(mutex_);            // the first error that another process told
  std::string last_roll_call_ ABSL_GUARDED_BY(mutex_);  // of LeaveMpi
  std::unique_ptr<MpiWatcher> watcher_;                 // null until the processes are connected
};

// The time after which an exchange that may wait for `patience` is logged: `usual`, or a tenth of the patience if that
// is less, but not less than 5 s for that.
absl::Duration WarnAfter(absl::Duration usual, absl::Duration patience);

// Connects the processes of `launch`, each of which calls it. `build` is the caller's (kBuild). An exchange that waits
// for WarnAfter(warn_after, its patience) is logged once, with where each process is. Errors: as OpenWorld.
absl::StatusOr<std::unique_ptr<World>> OpenMpiWorld(std::unique_ptr<MpiApi> mpi, const Launch& launch,
                                                    absl::string_view build, absl::Time deadline,
                                                    absl::Duration warn_after = absl::Seconds(60));

}  // namespace belfry
