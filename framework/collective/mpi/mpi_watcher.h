// Notes between the processes of a world, beside what they exchange.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "framework/base/mutex.h"
#include "framework/collective/mpi/mpi_api.h"

namespace belfry {

// A thread that takes notes of the other processes: that one of them has failed, that one asks where this process is,
// that one leaves. It answers while all other threads compute or wait. All methods are thread-safe.
//
// Each process has one receive per other process pending at any time. A note has a fixed size, so that no other message
// has to announce it.
class MpiWatcher {
 public:
  static constexpr int kTag = 1;

  // `mpi_mutex` is held for each call of `mpi`. Calls `on_failure` with the text of the first process that tells one.
  // Errors: those of StartThread; those of MPI end the notes.
  static absl::StatusOr<std::unique_ptr<MpiWatcher>> Start(MpiApi& mpi, Mutex& mpi_mutex,
                                                           std::function<void(const std::string& text)> on_failure);
  // Ends it. Pending receives are left to MPI.
  ~MpiWatcher();
  // Stops the thread, and with it all calls of MPI.
  void End();

  void SetPosition(std::function<std::string()> position);
  // Sends `text` as this process's failure to all others that may still wait for it; gives up after a second.
  void Tell(const std::string& text);
  // Takes pending notes now instead of within 100 ms.
  void TakeNotes() { Poll().IgnoreError(); }
  // Whether a failure was told, by this process or to it.
  bool told();
  // Asks all processes where they are, and waits a second for their answers. By rank; empty: no answer. One that has
  // come to the end, as this one, is not asked.
  std::vector<std::string> RollCall();
  // Exchanges farewells, after which no note is sent and none pending. Returns the processes that said none before the
  // deadline, after which notes go on. Errors: those of MPI; DeadlineExceeded if that does not give receives up.
  absl::StatusOr<std::vector<int>> Leave(absl::Time deadline);

 private:
  using Note = std::array<char, 1024>;
  enum Kind : char { kFailed = 'F', kWhere = 'W', kHere = 'H', kLeave = 'L' };
  struct Incoming {
    Note note;
    MpiApi::Request request = -1;  // -1: none pending; this process has left
    bool left = false;             // has said farewell
  };
  struct Outgoing {
    std::shared_ptr<const Note> note;  // may go to all processes
    MpiApi::Request request = -1;
  };

  MpiWatcher(MpiApi& mpi, Mutex& mpi_mutex, std::function<void(const std::string&)> on_failure);
  void Work();
  absl::Status Poll();
  absl::Status Post(int from) ABSL_EXCLUSIVE_LOCKS_REQUIRED(poll_mutex_);
  static std::shared_ptr<const Note> MakeNote(Kind kind, const std::string& text);
  void Send(int to, std::shared_ptr<const Note> note) ABSL_EXCLUSIVE_LOCKS_REQUIRED(poll_mutex_);
  void Take(int from, const Note& note) ABSL_EXCLUSIVE_LOCKS_REQUIRED(poll_mutex_);
  // True for another process that still takes notes: each does until all have said farewell.
  bool Listens(int rank) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(poll_mutex_) {
    return rank != rank_ && !(leaving_ && incoming_[rank].left);
  }
  absl::Status GiveReceivesUp() ABSL_EXCLUSIVE_LOCKS_REQUIRED(poll_mutex_);
  // Waits until `done`, polling; false at the deadline.
  bool PollUntil(absl::Time deadline, const std::function<bool()>& done);
  std::string Position();

  MpiApi& mpi_;
  Mutex& mpi_mutex_;
  const std::function<void(const std::string&)> on_failure_;
  const int rank_, size_;
  Mutex poll_mutex_;                                             // held while notes are taken or sent
  std::vector<Incoming> incoming_ ABSL_GUARDED_BY(poll_mutex_);  // by rank
  std::vector<Outgoing> outgoing_ ABSL_GUARDED_BY(poll_mutex_);
  absl::Status error_ ABSL_GUARDED_BY(poll_mutex_);    // of MPI; no more notes then
  bool leaving_ ABSL_GUARDED_BY(poll_mutex_) = false;  // this process has said farewell,
  bool left_ ABSL_GUARDED_BY(poll_mutex_) = false;     // and so have all others
  Mutex mutex_;
  bool done_ ABSL_GUARDED_BY(mutex_) = false, told_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::string> answers_ ABSL_GUARDED_BY(mutex_);  // by rank
  Mutex position_mutex_;
  std::function<std::string()> position_ ABSL_GUARDED_BY(position_mutex_);
  std::thread thread_;
};

}  // namespace belfry
