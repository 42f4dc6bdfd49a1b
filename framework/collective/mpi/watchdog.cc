#include "framework/collective/mpi/watchdog.h"

#include <unistd.h>

#include <cstdio>
#include <utility>

namespace belfry {

Watchdog::Watchdog(absl::Time deadline, std::string message, int status) {
  thread_ = std::thread([this, deadline, status, message = std::move(message)] {
    const MutexLock lock(mutex_);
    if (mutex_.AwaitUntil(deadline, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return done_; })) return;
    std::fprintf(stderr, "%s\n", message.c_str());
    _exit(status);
  });
}

Watchdog::~Watchdog() {
  {
    const MutexLock lock(mutex_);
    done_ = true;
    mutex_.NotifyAll();
  }
  thread_.join();
}

}  // namespace belfry
