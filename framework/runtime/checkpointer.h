// Asynchronous checkpoints: saved while training goes on.
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

// Writes snapshots of a session on a background thread. Borrows the session, and uses it only in Save. One thread at a
// time.
class Checkpointer {
 public:
  // Errors: ResourceExhausted if the system has no threads left.
  static absl::StatusOr<std::unique_ptr<Checkpointer>> Create(Session& session, io::CheckpointDirectory directory);
  // Waits for the write in flight; logs its error if it has not been reported.
  ~Checkpointer();
  Checkpointer(const Checkpointer&) = delete;
  Checkpointer& operator=(const Checkpointer&) = delete;

  // Takes a snapshot, starts CheckpointDirectory::Save in the background and returns. Waits first for the previous
  // write, whose error, if any, is returned by this call; the new checkpoint is saved nevertheless. A snapshot with a
  // NaN or an infinity is not written; that is an Aborted error, reported in the same way. `elsewhere`: as for
  // Snapshot::Take.
  absl::Status Save(int64_t step, io::Metadata metadata = {}, const std::optional<io::Metric>& metric = std::nullopt,
                    absl::Span<const SlotPart> elsewhere = {});
  // Returns the error that has not been reported yet. Does not wait.
  absl::Status Poll();
  // True unless a write is in flight.
  bool idle();
  // Waits for the write in flight, and returns the error that has not been reported yet. Save may follow.
  absl::Status Finish();

  const std::string& folder() const { return directory_.folder(); }

 private:
  struct Request {
    int64_t step = 0;
    io::Metadata metadata;
    std::optional<io::Metric> metric;
  };

  Checkpointer(Session& session, io::CheckpointDirectory directory)
      : session_(session), directory_(std::move(directory)) {}
  void Write();
  absl::Status WriteRequest();

  Session& session_;
  io::CheckpointDirectory directory_;  // after Create used by the thread only, except folder()
  Snapshot snapshot_;                  // used by the thread while request_ is set, else by the caller
  Mutex mutex_;
  std::optional<Request> request_ ABSL_GUARDED_BY(mutex_);  // until it is written
  absl::Status unreported_ ABSL_GUARDED_BY(mutex_);
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace belfry
