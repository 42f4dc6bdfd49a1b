// Copies between two cards that do not reach each other's memory.
#pragma once

#include <cstddef>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "framework/device/cuda/card.h"
#include "framework/device/cuda/handles.h"

namespace belfry {

// A detour through page-locked host memory, in chunks that one card writes while the other reads the chunk before. It
// belongs to one stream, of either card, in whose order the copies are: the other card is served by a stream of the
// route's own, which begins after the owner's earlier work and ends before its later work. One thread at a time.
class HostRoute {
 public:
  // REQUIRES: `owner` is a stream of one of the two cards.
  static absl::StatusOr<std::unique_ptr<HostRoute>> Make(const Card& from, const Card& to, const Card& owner_card,
                                                         cudaStream_t owner);
  // REQUIRES: the owner has no work under way.
  ~HostRoute() = default;

  bool Connects(const Card& from, const Card& to) const {
    return from.ordinal() == from_.ordinal() && to.ordinal() == to_.ordinal();
  }
  // Enqueues a copy from memory of the first card to memory of the second.
  absl::Status Copy(void* to, const void* from, size_t bytes);

 private:
  HostRoute(const Card& from, const Card& to, const Card& owner_card, cudaStream_t owner)
      : from_(from), to_(to), owner_card_(owner_card), owner_(owner) {}

  static constexpr size_t kChunk = size_t{1} << 20;

  const Card& from_;
  const Card& to_;
  const Card& owner_card_;
  const cudaStream_t owner_;
  PinnedHandle buffer_;  // two chunks
  StreamHandle helper_;
  EventHandle begun_;       // on the owner
  EventHandle written_[2];  // on the first card's stream: the chunk is in the buffer
  EventHandle read_[2];     // on the second card's stream: the chunk is out of it
};

}  // namespace belfry
