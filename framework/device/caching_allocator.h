// A caching allocator of device memory: freed memory is kept for later requests.
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

// The source of an allocator's large blocks: the driver, or host memory in tests.
class BlockSource {
 public:
  virtual ~BlockSource() = default;
  // A block of `bytes`, aligned to 256 bytes. ResourceExhausted if there is no more memory.
  virtual absl::StatusOr<void*> Get(size_t bytes) = 0;
  virtual void Return(void* block, size_t bytes) = 0;
};

// Cuts pieces out of large blocks. A request gets the smallest free piece that fits, and the rest of the piece stays
// free; adjacent free pieces merge. A wholly free block goes back to the source only if the limit or the source leaves
// no other room. Freed memory may be handed out again at once, so the caller must make sure that no work still uses it.
// Never touches the memory itself. Thread-safe.
class CachingAllocator {
 public:
  static constexpr size_t kPieceAlignment = 256;

  // `owner` appears in errors. `limit` bounds the bytes taken from `source`, which must outlive the allocator.
  CachingAllocator(BlockSource& source, absl::string_view owner, size_t limit);
  // Returns all blocks, whether in use or not.
  ~CachingAllocator();

  // Takes everything up to the limit from the source now, as one block.
  absl::Status Reserve();
  // Memory aligned to 256 bytes; null for 0. The ResourceExhausted error names the owner, the request, the bytes in use
  // and the limit.
  absl::StatusOr<void*> Allocate(size_t bytes);
  // Ignores null. REQUIRES: `memory` came from Allocate and has not been freed.
  void Deallocate(void* memory);

  // Bytes in use include the rounding up of each allocation.
  DeviceCounters counters() const;
  // Bytes currently taken from the source.
  size_t reserved() const;

 private:
  struct Piece {
    size_t bytes;
    uintptr_t block;  // address of the block that contains it
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
