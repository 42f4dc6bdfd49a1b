#include "framework/device/cpu/cpu_event.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>
#include <thread>

#include "framework/base/steady_time.h"

namespace belfry {
namespace {

// Long enough for a hand-over between two running threads, short compared with the cost of sleeping (some
// microseconds).
constexpr int kSpins = 20;

void FutexWait(std::atomic<uint32_t>& word, uint32_t expected, absl::Time deadline) {
  timespec timeout;
  timespec* wait = nullptr;
  if (deadline != absl::InfiniteFuture()) {
    timeout = absl::ToTimespec(deadline - SteadyNow());
    if (timeout.tv_sec < 0) timeout = {0, 0};
    wait = &timeout;
  }
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAIT_PRIVATE, expected, wait, nullptr, 0);
}

void FutexWakeAll(std::atomic<uint32_t>& word) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace

absl::Status CpuEvent::Wait(uint32_t run, absl::Time deadline) {
  for (int spin = 0; spin < kSpins; ++spin) {
    if (cancelled_.load(std::memory_order_acquire)) return absl::CancelledError("the step was cancelled");
    if (Reached(run)) return absl::OkStatus();
    std::this_thread::yield();
  }
  // Waiters are counted before the word is read, and the word changes before waiters are looked for (both sequentially
  // consistent), so a Record in between is either seen here or wakes this thread.
  waiters_.fetch_add(1);
  absl::Status status;
  while (true) {
    const uint32_t word = signals_.load();
    if (cancelled_.load()) {
      status = absl::CancelledError("the step was cancelled");
      break;
    }
    if (Reached(run)) break;
    if (deadline != absl::InfiniteFuture() && SteadyNow() >= deadline) {
      status = absl::DeadlineExceededError("the step exceeded its deadline");
      break;
    }
    FutexWait(signals_, word, deadline);
  }
  waiters_.fetch_sub(1);
  return status;
}

void CpuEvent::Record(uint32_t run) {
  recorded_.store(run, std::memory_order_release);
  signals_.fetch_add(1);
  if (waiters_.load() > 0) FutexWakeAll(signals_);
}

void CpuEvent::Cancel() {
  cancelled_.store(true);
  signals_.fetch_add(1);
  FutexWakeAll(signals_);
}

void CpuEvent::Reset(uint32_t run) {
  cancelled_.store(false);
  recorded_.store(run);
}

}  // namespace belfry
