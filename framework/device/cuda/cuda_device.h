// GPU devices: a card, or a share of its memory.
#pragma once

#include <memory>
#include <string>

#include "framework/device/caching_allocator.h"
#include "framework/device/cuda/card.h"
#include "framework/device/cuda/compiled_kernels.h"
#include "framework/device/cuda/memory.h"
#include "framework/device/device.h"

namespace belfry {

class CudaDevice final : public Device {
 public:
  // `cards` owns `card`. `limit`: bytes of the card's memory that the device may use.
  CudaDevice(DeviceName name, std::shared_ptr<const Cards> cards, const Card& card, std::string description,
             size_t limit, const MathMode& math);

  const DeviceName& name() const override { return name_; }
  std::string description() const override { return description_; }
  int threads() const override { return 1; }
  int physical_id() const override { return card_.ordinal(); }
  bool asynchronous() const override { return true; }
  DeviceCounters counters() const override { return allocator_.counters(); }
  MathMode math() const override { return math_; }
  bool only_gpu() const override { return cards_->devices == 1 && !cards_->several_processes; }
  std::string model() const override { return card_.model(); }

  // Takes all of the device's memory from the card now.
  absl::Status Reserve() { return allocator_.Reserve(); }
  absl::StatusOr<void*> Allocate(size_t bytes) override { return allocator_.Allocate(bytes); }
  void Deallocate(void* memory, size_t) override { allocator_.Deallocate(memory); }
  absl::StatusOr<void*> AllocateHost(size_t bytes) override;
  void DeallocateHost(void* memory, size_t bytes) override;
  absl::StatusOr<std::unique_ptr<Stream>> NewStream(StreamKind kind) override;
  std::unique_ptr<Event> NewEvent() override;
  absl::StatusOr<std::unique_ptr<StreamClock>> NewClock(int stamps) override;
  bool CompilesKernels() override { return true; }
  absl::StatusOr<std::shared_ptr<const CompiledKernel>> CompileKernel(const std::string& source) override {
    return compiled_.Get(card_, source);
  }

  const Card& card() const { return card_; }
  bool Reaches(const CudaDevice& other) const {
    return cards_->peers.connected(card_.ordinal(), other.card_.ordinal());
  }

 private:
  const std::shared_ptr<const Cards> cards_;
  const Card& card_;
  const DeviceName name_;
  const std::string description_;
  const MathMode math_;
  CardMemory memory_;
  CachingAllocator allocator_;
  CompiledKernels compiled_;
};

}  // namespace belfry
