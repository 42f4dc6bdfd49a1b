// Messages from running kernels to the host.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>

#include "absl/status/statusor.h"
#include "framework/base/status.h"
#include "framework/device/device.h"

namespace belfry::ops {

// A number in host memory that kernels write with gpu::TellHost; 0 if none has. Take() is for one host thread.
class HostWord {
 public:
  static absl::StatusOr<std::shared_ptr<HostWord>> Make(Device& device) {
    ASSIGN_OR_RETURN(DeviceMemory memory, DeviceMemory::AllocateHost(device, sizeof(uint64_t)));
    return std::shared_ptr<HostWord>(new HostWord(std::move(memory)));
  }
  uint64_t* data() const { return static_cast<uint64_t*>(memory_.data()); }
  // Returns the last number written, and resets it to 0.
  uint64_t Take() const {
    const std::atomic_ref<uint64_t> word(*data());
    return word.load(std::memory_order_relaxed) == 0 ? 0 : word.exchange(0, std::memory_order_relaxed);
  }

 private:
  explicit HostWord(DeviceMemory memory) : memory_(std::move(memory)) { new (memory_.data()) uint64_t(0); }

  const DeviceMemory memory_;
};

}  // namespace belfry::ops
