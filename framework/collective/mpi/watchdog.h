// A limit on calls that wait without one, such as MPI_Init and MPI_Finalize.
#pragma once

#include <memory>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "framework/base/mutex.h"

namespace belfry {

// While it lives, ends the process at the deadline: prints `message` to standard error and leaves with `status`,
// without exit handlers, because MPI's may wait as well. The launcher then ends the other processes. A call of MPI
// can neither be left nor be continued, so there is nothing to return an error to.
class Watchdog {
 public:
  // `notice`, unless it is empty, is printed after `notice_after`, so that nobody has to wait for the deadline to learn
  // what the process waits for. Errors: those of StartThread.
  static absl::StatusOr<std::unique_ptr<Watchdog>> Start(absl::Time deadline, std::string message, int status,
                                                         std::string notice = "",
                                                         absl::Duration notice_after = absl::ZeroDuration());
  ~Watchdog();

 private:
  Watchdog() = default;

  Mutex mutex_;
  bool done_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace belfry
