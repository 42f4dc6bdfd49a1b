// Memory of a device, kept when it is given back, for the next who asks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/base/mutex.h"
#include "framework/device/device.h"

namespace belfry {

// Where an allocator gets large blocks from: the driver, or the host's memory in tests.
class BlockSource {
 public:
  virtual ~BlockSource() = default;
  // Aligned to 256 bytes. ResourceExhausted if there is no more.
  virtual absl::StatusOr<void*> Get(size_t bytes) = 0;
  virtual void Return(void* block, size_t bytes) = 0;
};

// Cuts pieces out of large blocks: the smallest free piece that fits, the rest of it staying free; neighbours that are
// free become one. A block that is free as a whole goes back to the source only when the limit or the source leaves no
// room otherwise. What is given back may be handed out again at once: the caller sees to it that no work uses it any
// more. Does not touch the memory. Thread-safe.
class CachingAllocator {
 public:
  static constexpr size_t kPieceAlignment = 256;

  // `owner`: for errors. `limit`: of the bytes taken from `source`, which must outlive the allocator.
  CachingAllocator(BlockSource& source, absl::string_view owner, size_t limit);
  // Returns all blocks.
  ~CachingAllocator();

  // Takes all that the limit allows now, as one block.
  absl::Status Reserve();
  // Aligned to 256 bytes; null for 0. ResourceExhausted names the owner, what was asked, what is in use and the limit.
  absl::StatusOr<void*> Allocate(size_t bytes);
  // Null is ignored. REQUIRES: from Allocate, and not given back yet.
  void Deallocate(void* memory);

  // Bytes in use are rounded up to what each allocation takes up.
  DeviceCounters counters() const;
  // Bytes taken from the source.
  size_t reserved() const;

 private:
  struct Piece {
    size_t bytes;
    uintptr_t block;  // address of the block that it is part of
    bool free;
  };
  using Pieces = std::map<uintptr_t, Piece>;  // by address

  absl::Status AddBlock(size_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Grow(size_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ReturnFreeBlocks() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void* Take(Pieces::iterator piece, size_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SetFree(Pieces::iterator piece) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Exhausted(size_t bytes, absl::string_view why) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  BlockSource& source_;
  const std::string owner_;
  const size_t limit_;
  mutable Mutex mutex_;
  std::map<uintptr_t, size_t> blocks_ ABSL_GUARDED_BY(mutex_);
  Pieces pieces_ ABSL_GUARDED_BY(mutex_);
  std::set<std::pair<size_t, uintptr_t>> free_ ABSL_GUARDED_BY(mutex_);  // (bytes, address)
  size_t reserved_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t next_block_ ABSL_GUARDED_BY(mutex_);
  size_t in_use_ ABSL_GUARDED_BY(mutex_) = 0, peak_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t allocations_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace belfry
