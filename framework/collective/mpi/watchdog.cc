#include "framework/collective/mpi/watchdog.h"

#include <unistd.h>

#include <cstdio>
#include <utility>

#include "framework/base/status.h"
#include "framework/base/steady_time.h"
#include "framework/base/thread.h"

namespace belfry {

absl::StatusOr<std::unique_ptr<Watchdog>> Watchdog::Start(absl::Time deadline, std::string message, int status,
                                                          std::string notice, absl::Duration notice_after) {
  std::unique_ptr<Watchdog> watchdog(new Watchdog);
  const auto watch = [dog = watchdog.get(), deadline, status, message = std::move(message), notice = std::move(notice),
                      notice_at = SteadyNow() + notice_after] {
    {
      const MutexLock lock(dog->mutex_);
      const auto done = [dog]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(dog->mutex_) { return dog->done_; };
      if (!notice.empty() && notice_at < deadline) {
        if (dog->mutex_.AwaitUntil(notice_at, done)) return;
        std::fprintf(stderr, "%s\n", notice.c_str());
      }
      if (dog->mutex_.AwaitUntil(deadline, done)) return;
    }
    std::fprintf(stderr, "%s\n", message.c_str());
    _exit(status);
  };
  ASSIGN_OR_RETURN(watchdog->thread_, StartThread("that ends MPI at the deadline", watch));
  return watchdog;
}

Watchdog::~Watchdog() {
  {
    const MutexLock lock(mutex_);
    done_ = true;
    mutex_.NotifyAll();
  }
  if (thread_.joinable()) thread_.join();
}

}  // namespace belfry
