// Copies between two cards that cannot access each other's memory.
#pragma once

#include <cstddef>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "framework/device/cuda/card.h"
#include "framework/device/cuda/handles.h"

namespace belfry {

// A route through page-locked host memory, in chunks: one card writes a chunk while the other reads the one before. A
// route belongs to one stream, the owner, on either card, and its copies run in that stream's order. A helper stream
// serves the other card; it begins after the owner's earlier work and ends before the owner's later work. Not
// thread-safe.
class HostRoute {
 public:
  // REQUIRES: `owner` is a stream of one of the two cards, `owner_card`.
  static absl::StatusOr<std::unique_ptr<HostRoute>> Make(const Card& from, const Card& to, const Card& owner_card,
                                                         cudaStream_t owner);
  // REQUIRES: the owner has no work in progress.
  ~HostRoute() = default;

  bool Connects(const Card& from, const Card& to) const {
    return from.ordinal() == from_.ordinal() && to.ordinal() == to_.ordinal();
  }
  // Enqueues a copy of `bytes` from the first card's memory to the second's.
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
  EventHandle written_[2];  // on the first card's stream: the chunk has been written to the buffer
  EventHandle read_[2];     // on the second card's stream: the chunk has been read from the buffer
};

}  // namespace belfry
