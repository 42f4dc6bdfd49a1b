// A shared/exclusive lock for steps: many readers or one writer, on one atomic.
#pragma once

#include <atomic>
#include <cstdint>

#include "absl/time/time.h"
#include "framework/base/mutex.h"

namespace belfry {

// Lets steps that only read variables run side by side, and a step that writes them, or needs the device threads, run
// exclusively. Entering and leaving a free gate takes a few atomic operations; waiting for a busy one sleeps. Exclusive
// waiters have priority, so evaluation cannot starve training. Thread-safe.
class RunGate {
 public:
  // Returns false if the deadline passed first; then Leave must not be called.
  bool Enter(bool exclusive, absl::Time deadline) {
    if (TryEnter(exclusive)) return true;
    const MutexLock lock(mutex_);
    waiters_.fetch_add(1);
    if (exclusive) exclusive_waiting_.fetch_add(1);
    const bool entered = mutex_.AwaitUntil(deadline, [&] { return TryEnter(exclusive); });
    if (exclusive) exclusive_waiting_.fetch_sub(1);
    waiters_.fetch_sub(1);
    // Shared waiters may have been waiting only for this one to go first.
    if (exclusive && !entered) mutex_.NotifyAll();
    return entered;
  }

  void Leave(bool exclusive) {
    if (exclusive) {
      state_.store(0);
    } else {
      state_.fetch_sub(1);
    }
    // A waiter increments waiters_ before it reads state_, so either it sees the change or it is seen here.
    if (waiters_.load() == 0) return;
    const MutexLock lock(mutex_);
    mutex_.NotifyAll();
  }

 private:
  bool TryEnter(bool exclusive) {
    int32_t state = state_.load();
    while (exclusive ? state == 0 : state >= 0 && exclusive_waiting_.load() == 0) {
      if (state_.compare_exchange_weak(state, exclusive ? -1 : state + 1)) return true;
    }
    return false;
  }

  std::atomic<int32_t> state_{0};  // -1: held exclusively; else the number of shared holders
  std::atomic<int32_t> exclusive_waiting_{0};
  std::atomic<int32_t> waiters_{0};
  Mutex mutex_;  // for sleeping; not taken while the gate is free
};

// Holds the gate for its lifetime, if it was entered before the deadline.
class ScopedRun {
 public:
  ScopedRun(RunGate& gate, bool exclusive, absl::Time deadline = absl::InfiniteFuture())
      : gate_(gate), exclusive_(exclusive), entered_(gate.Enter(exclusive, deadline)) {}
  ~ScopedRun() {
    if (entered_) gate_.Leave(exclusive_);
  }
  ScopedRun(const ScopedRun&) = delete;
  ScopedRun& operator=(const ScopedRun&) = delete;

  bool entered() const { return entered_; }

 private:
  RunGate& gate_;
  const bool exclusive_, entered_;
};

}  // namespace belfry
