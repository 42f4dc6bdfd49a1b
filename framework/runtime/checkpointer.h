// Saves checkpoints while training goes on.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "framework/base/mutex.h"
#include "framework/io/checkpoint_directory.h"
#include "framework/runtime/saver.h"

namespace belfry {

// Writes snapshots of a session on a thread of its own. The session is borrowed and used in Save only. One thread at a
// time may call it.
class Checkpointer {
 public:
  // ResourceExhausted if the system has no threads left.
  static absl::StatusOr<std::unique_ptr<Checkpointer>> Create(Session& session, io::CheckpointDirectory directory);
  // Waits for the write that is under way; what goes wrong there and was not reported is logged.
  ~Checkpointer();
  Checkpointer(const Checkpointer&) = delete;
  Checkpointer& operator=(const Checkpointer&) = delete;

  // Takes a snapshot and returns; CheckpointDirectory::Save writes it meanwhile. One write is under way at most: if the
  // former one is not done, its end is waited for first. Its error, if it had one, is returned by this call, which
  // saves all the same. Variables with a NaN or an infinity are not written, so that no checkpoint has any: Aborted,
  // reported likewise.
  absl::Status Save(int64_t step, io::Metadata metadata = {}, std::optional<double> metric = std::nullopt);
  // The error that was not reported yet, without waiting.
  absl::Status Poll();
  // Waits until all is written, and returns the error that was not reported yet. Save may follow.
  absl::Status Finish();

  const std::string& folder() const { return directory_.folder(); }

 private:
  struct Request {
    int64_t step = 0;
    io::Metadata metadata;
    std::optional<double> metric;
  };

  Checkpointer(Session& session, io::CheckpointDirectory directory)
      : session_(session), directory_(std::move(directory)) {}
  void Write();

  Session& session_;
  io::CheckpointDirectory directory_;  // after Create, the thread's alone but for folder()
  Snapshot snapshot_;                  // the thread's while request_ is set, else the caller's
  Mutex mutex_;
  std::optional<Request> request_ ABSL_GUARDED_BY(mutex_);  // until it is written
  absl::Status unreported_ ABSL_GUARDED_BY(mutex_);
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace belfry
