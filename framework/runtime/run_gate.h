// Many readers or one writer, on one atomic.
#pragma once

#include <atomic>
#include <cstdint>

#include "absl/time/time.h"
#include "framework/base/mutex.h"

namespace belfry {

// Lets steps that only read variables run side by side, and a step that writes them (or needs the device threads) run
// alone. Entering and leaving a free gate are a few atomic operations; a busy one is waited for asleep. One who waits
// to be alone goes before those who would share, so that evaluation cannot keep training out.
class RunGate {
 public:
  // False if the deadline came first; then there is nothing to leave.
  bool Enter(bool alone, absl::Time deadline) {
    if (TryEnter(alone)) return true;
    const MutexLock lock(mutex_);
    waiters_.fetch_add(1);
    if (alone) alone_waiting_.fetch_add(1);
    const bool entered = mutex_.AwaitUntil(deadline, [&] { return TryEnter(alone); });
    if (alone) alone_waiting_.fetch_sub(1);
    waiters_.fetch_sub(1);
    // Those who would share may have waited for nobody else.
    if (alone && !entered) mutex_.NotifyAll();
    return entered;
  }

  void Leave(bool alone) {
    if (alone) {
      state_.store(0);
    } else {
      state_.fetch_sub(1);
    }
    // A waiter counts itself before it looks at state_, so either it sees the change or it is seen here.
    if (waiters_.load() == 0) return;
    const MutexLock lock(mutex_);
    mutex_.NotifyAll();
  }

 private:
  bool TryEnter(bool alone) {
    int32_t state = state_.load();
    while (alone ? state == 0 : state >= 0 && alone_waiting_.load() == 0) {
      if (state_.compare_exchange_weak(state, alone ? -1 : state + 1)) return true;
    }
    return false;
  }

  std::atomic<int32_t> state_{0};  // -1: one alone; else how many share it
  std::atomic<int32_t> alone_waiting_{0};
  std::atomic<int32_t> waiters_{0};
  Mutex mutex_;  // what is slept on; not taken while the gate is free
};

// Holds the gate for its own life, if it could be entered before the deadline.
class ScopedRun {
 public:
  ScopedRun(RunGate& gate, bool alone, absl::Time deadline = absl::InfiniteFuture())
      : gate_(gate), alone_(alone), entered_(gate.Enter(alone, deadline)) {}
  ~ScopedRun() {
    if (entered_) gate_.Leave(alone_);
  }
  ScopedRun(const ScopedRun&) = delete;
  ScopedRun& operator=(const ScopedRun&) = delete;

  bool entered() const { return entered_; }

 private:
  RunGate& gate_;
  const bool alone_, entered_;
};

}  // namespace belfry
