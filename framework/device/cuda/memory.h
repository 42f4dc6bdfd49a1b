// A card's memory as a source of blocks.
#pragma once

#include "framework/device/caching_allocator.h"
#include "framework/device/cuda/card.h"

namespace belfry {

// Calls the driver directly. Get and Return may wait for the card's work.
class CardMemory final : public BlockSource {
 public:
  explicit CardMemory(const Card& card) : card_(card) {}
  absl::StatusOr<void*> Get(size_t bytes) override;
  void Return(void* block, size_t bytes) override;

 private:
  const Card& card_;
};

}  // namespace belfry
