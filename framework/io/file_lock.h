// Locks between processes.
#pragma once

#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace belfry::io {

// Admits one holder at a time, across processes and threads, by a lock on a file of its own, which exists as long as
// someone holds it and says who: the name of nothing else, so that nobody else has a reason to lock it. The system
// releases it when the process ends. Movable.
class FileLock {
 public:
  // Takes the lock on `path`, waiting until `deadline`, a moment of SteadyNow; logs a line if that takes more than two
  // seconds. Where no lock can be had, on a file system without them or in a folder that may not be written, the result
  // is not held(). DeadlineExceeded names the holder.
  static absl::StatusOr<FileLock> Wait(const std::string& path, absl::Time deadline);
  FileLock(FileLock&& other) noexcept
      : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}
  FileLock& operator=(FileLock&&) = delete;
  ~FileLock();

  bool held() const { return descriptor_ >= 0; }

 private:
  FileLock(std::string path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}
  std::string path_;
  int descriptor_;
};

}  // namespace belfry::io
