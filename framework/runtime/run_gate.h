// Many readers or one writer, on one atomic.
#pragma once

#include <atomic>
#include <cstdint>

namespace belfry {

// Lets steps that only read variables run side by side, and a step that writes them (or needs the device threads) run
// alone. Entering and leaving a free gate are a few atomic operations; a busy one is waited for asleep. One who waits
// to be alone goes before those who would share, so that evaluation cannot keep training out.
class RunGate {
 public:
  void Enter(bool alone) {
    if (alone) alone_waiting_.fetch_add(1);
    while (true) {
      const uint32_t turn = turns_.load();
      int32_t state = state_.load();
      const bool free = alone ? state == 0 : state >= 0 && alone_waiting_.load() == 0;
      if (free) {
        if (state_.compare_exchange_weak(state, alone ? -1 : state + 1)) break;
        continue;
      }
      // A Leave after `turn` was read has changed turns_, so the wait below ends at once.
      waiters_.fetch_add(1);
      turns_.wait(turn);
      waiters_.fetch_sub(1);
    }
    if (alone) alone_waiting_.fetch_sub(1);
  }

  void Leave(bool alone) {
    if (alone) {
      state_.store(0);
    } else {
      state_.fetch_sub(1);
    }
    turns_.fetch_add(1);
    if (waiters_.load() > 0) turns_.notify_all();
  }

 private:
  std::atomic<int32_t> state_{0};  // -1: one alone; else how many share it
  std::atomic<int32_t> alone_waiting_{0};
  std::atomic<uint32_t> turns_{0};  // counts Leaves; what is slept on
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
