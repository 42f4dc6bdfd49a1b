// The native records of an event's last runs.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>

#include "framework/device/device.h"

namespace belfry {

// Remembers the record that a back-end made for each of the last kRuns runs. Null means that the run has been reached
// and there is nothing to wait for. One writer at a time and any number of readers, who may ask for runs that have been
// set and are at most kEventRuns before the last.
template <class T>
class EventRing {
 public:
  // More than kEventRuns, so that nobody reads a record while it is replaced; and a divisor of 2^32, where run numbers
  // wrap around.
  static constexpr uint32_t kRuns = 2 * kEventRuns;
  static_assert((kRuns & (kRuns - 1)) == 0);
  static constexpr uint32_t SlotOf(uint32_t run) { return run % kRuns; }

  // Runs skipped since the last Set are reached together with this one.
  void Set(uint32_t run, T* record) {
    const uint32_t since = run - last_.load(std::memory_order_relaxed);
    const bool forward = since != 0 && since <= UINT32_MAX / 2;
    const uint32_t count = forward ? std::min(since, kRuns) : 1;
    for (uint32_t back = 0; back < count; ++back) records_[SlotOf(run - back)].store(record, std::memory_order_release);
    last_.store(run, std::memory_order_relaxed);
  }
  T* At(uint32_t run) const { return records_[SlotOf(run)].load(std::memory_order_acquire); }
  // Marks all runs up to `run` as reached.
  void Reset(uint32_t run) {
    for (auto& record : records_) record.store(nullptr, std::memory_order_release);
    last_.store(run, std::memory_order_relaxed);
  }

 private:
  std::array<std::atomic<T*>, kRuns> records_{};
  std::atomic<uint32_t> last_{0};
};

}  // namespace belfry
