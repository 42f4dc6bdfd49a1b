// Many readers or one writer, on one atomic.
#pragma once

#include <atomic>
#include <cstdint>

namespace belfry {

// Lets steps that only read variables run side by side, and a step that writes them (or needs the device threads) run
// alone. Entering a free gate is one atomic operation; a busy one is waited for asleep. Writers do not starve for long:
// nothing is promised about order.
class RunGate {
 public:
  void Enter(bool alone) {
    for (int32_t state = state_.load(std::memory_order_relaxed);;) {
      const bool free = alone ? state == 0 : state >= 0;
      if (!free) {
        waiters_.fetch_add(1);
        state_.wait(state);
        waiters_.fetch_sub(1);
        state = state_.load();
      } else if (state_.compare_exchange_weak(state, alone ? -1 : state + 1, std::memory_order_acquire)) {
        return;
      }
    }
  }

  void Leave(bool alone) {
    alone ? state_.store(0) : (void)state_.fetch_sub(1);
    if (waiters_.load() > 0) state_.notify_all();
  }

 private:
  std::atomic<int32_t> state_{0};  // -1: one alone; else how many share it
  std::atomic<int32_t> waiters_{0};
};

// Holds the gate for its own life.
class ScopedRun {
 public:
  ScopedRun(RunGate& gate, bool alone) : gate_(gate), alone_(alone) { gate_.Enter(alone_); }
  ~ScopedRun() { gate_.Leave(alone_); }
  ScopedRun(const ScopedRun&) = delete;
  ScopedRun& operator=(const ScopedRun&) = delete;

 private:
  RunGate& gate_;
  const bool alone_;
};

}  // namespace belfry
