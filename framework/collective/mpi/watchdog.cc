#include "framework/collective/mpi/watchdog.h"

#include <unistd.h>

#include <cstdio>
#include <utility>

namespace belfry {

Watchdog::Watchdog(absl::Time deadline, std::string message) {
  thread_ = std::thread([this, deadline, message = std::move(message)] {
    const MutexLock lock(mutex_);
    if (mutex_.AwaitUntil(deadline, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return done_; })) return;
    std::fprintf(stderr, "Error: DEADLINE_EXCEEDED: %s\n", message.c_str());
    _exit(1);
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
