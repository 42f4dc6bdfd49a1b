// An Event between threads of this process.
#pragma once

#include <atomic>

#include "framework/device/device.h"

namespace belfry {

// A counter on a futex. Waiting spins briefly and then sleeps, so that towers that share cores do not waste them. No
// locks.
class CpuEvent final : public Event {
 public:
  absl::Status Wait(uint32_t run, absl::Time deadline) override;
  void Record(uint32_t run) override;
  void Cancel() override;
  void Reset(uint32_t run) override;

 private:
  bool Reached(uint32_t run) const {
    return static_cast<int32_t>(recorded_.load(std::memory_order_acquire) - run) >= 0;
  }

  std::atomic<uint32_t> recorded_{0};
  std::atomic<uint32_t> signals_{0};  // the futex word; changes with every Record and Cancel
  std::atomic<int> waiters_{0};
  std::atomic<bool> cancelled_{false};
};

}  // namespace belfry
