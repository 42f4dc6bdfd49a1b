#include "framework/device/caching_allocator.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "framework/base/alignment.h"
#include "framework/base/check.h"
#include "framework/base/status.h"

namespace belfry {
namespace {

// Small requests share blocks. Their size doubles from the first to the largest, so that a small program takes little
// memory and a large one rarely calls the driver. A request larger than the current size gets a block of its own size.
constexpr size_t kFirstBlock = size_t{2} << 20, kLargestBlock = size_t{64} << 20;

}  // namespace

// Invariants, with the mutex free:
// - The pieces of a block lie end to end and cover it: AddBlock makes one piece, and only Take (cut) and SetFree
// (merge) change pieces.
// - No two free pieces of a block are neighbours, since SetFree merges both ways. So a block that is wholly free is a
// single piece, which is how ReturnFreeBlocks recognises it.
// - free_ holds exactly the free pieces, ordered by size and then address.
// - in_use_ <= reserved_ <= limit_, all multiples of kPieceAlignment, as are all pieces: hence every address handed out
// is aligned, and rounding a request up cannot exceed the limit.
//
// Cost: O(log pieces) per call under one mutex, and no call to the driver once the program's blocks are there. Free
// memory may be scattered, so a request within the limit can still fail; the error then gives the largest free piece.
CachingAllocator::CachingAllocator(BlockSource& source, absl::string_view owner, size_t limit)
    : source_(source), owner_(owner), limit_(limit / kPieceAlignment * kPieceAlignment), next_block_(kFirstBlock) {}

CachingAllocator::~CachingAllocator() {
  const MutexLock lock(mutex_);
  for (const auto& [address, bytes] : blocks_) source_.Return(reinterpret_cast<void*>(address), bytes);
}

absl::Status CachingAllocator::AddBlock(size_t bytes) {
  ASSIGN_OR_RETURN(void* const block, source_.Get(bytes));
  const auto address = reinterpret_cast<uintptr_t>(block);
  blocks_.emplace(address, bytes);
  SetFree(pieces_.emplace(address, Piece{bytes, address, false}).first);
  reserved_ += bytes;
  return absl::OkStatus();
}

absl::Status CachingAllocator::Reserve() {
  const MutexLock lock(mutex_);
  if (reserved_ == limit_) return absl::OkStatus();
  const size_t bytes = limit_ - reserved_;
  const absl::Status status = AddBlock(bytes);
  return status.ok() ? status : Exhausted(bytes, status.message());
}

// Adds a block with room for `bytes`, a multiple of kPieceAlignment.
absl::Status CachingAllocator::Grow(size_t bytes) {
  // Blocks are returned only when there is no other way: the driver may have to wait for the device's work.
  if (bytes > limit_ - reserved_) ReturnFreeBlocks();
  if (bytes > limit_ - reserved_) return absl::ResourceExhaustedError("");
  const size_t wanted = std::min(std::max(bytes, next_block_), limit_ - reserved_);
  absl::Status status = AddBlock(wanted);
  if (status.ok()) {
    next_block_ = std::min(2 * next_block_, kLargestBlock);
    return status;
  }
  // The source refused. Try once more with free blocks returned, and for no more than is needed.
  ReturnFreeBlocks();
  return AddBlock(bytes);
}

void CachingAllocator::ReturnFreeBlocks() {
  for (auto block = blocks_.begin(); block != blocks_.end();) {
    const auto [address, bytes] = *block;
    const auto piece = pieces_.find(address);
    if (!piece->second.free || piece->second.bytes != bytes) {
      ++block;
      continue;
    }
    free_.erase({bytes, address});
    pieces_.erase(piece);
    block = blocks_.erase(block);
    reserved_ -= bytes;
    source_.Return(reinterpret_cast<void*>(address), bytes);
  }
}

absl::StatusOr<void*> CachingAllocator::Allocate(size_t bytes) {
  if (bytes == 0) return nullptr;
  const MutexLock lock(mutex_);
  if (bytes > limit_ - in_use_) return Exhausted(bytes, "");
  const size_t rounded = AlignUp(bytes, kPieceAlignment);
  // Best fit: the smallest free piece that is large enough, and of those the one at the lowest address.
  auto found = free_.lower_bound({rounded, 0});
  if (found == free_.end()) {
    if (absl::Status status = Grow(rounded); !status.ok()) return Exhausted(bytes, status.message());
    found = free_.lower_bound({rounded, 0});
  }
  return Take(pieces_.find(found->second), rounded);
}

void* CachingAllocator::Take(Pieces::iterator piece, size_t bytes) {
  const uintptr_t address = piece->first;
  free_.erase({piece->second.bytes, address});
  piece->second.free = false;
  if (const size_t rest = piece->second.bytes - bytes; rest > 0) {
    piece->second.bytes = bytes;
    const auto after =
        pieces_.emplace_hint(std::next(piece), address + bytes, Piece{rest, piece->second.block, /*free=*/true});
    free_.emplace(rest, after->first);
  }
  in_use_ += bytes;
  peak_ = std::max(peak_, in_use_);
  ++allocations_;
  return reinterpret_cast<void*>(address);
}

void CachingAllocator::SetFree(Pieces::iterator piece) {
  const auto join = [&](Pieces::iterator first, Pieces::iterator second) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    first->second.bytes += second->second.bytes;
    pieces_.erase(second);
    return first;
  };
  // Pieces merge only within a block. Blocks may happen to adjoin, but each goes back to the source as it came.
  const uintptr_t block = piece->second.block;
  const auto mergeable = [&](Pieces::iterator other) { return other->second.free && other->second.block == block; };
  piece->second.free = true;
  if (const auto next = std::next(piece); next != pieces_.end() && mergeable(next)) {
    free_.erase({next->second.bytes, next->first});
    join(piece, next);
  }
  if (piece != pieces_.begin() && mergeable(std::prev(piece))) {
    const auto previous = std::prev(piece);
    free_.erase({previous->second.bytes, previous->first});
    piece = join(previous, piece);
  }
  free_.emplace(piece->second.bytes, piece->first);
}

void CachingAllocator::Deallocate(void* memory) {
  if (memory == nullptr) return;
  const MutexLock lock(mutex_);
  const auto piece = pieces_.find(reinterpret_cast<uintptr_t>(memory));
  BELFRY_CHECK(piece != pieces_.end() && !piece->second.free);
  in_use_ -= piece->second.bytes;
  SetFree(piece);
}

absl::Status CachingAllocator::Exhausted(size_t bytes, absl::string_view why) const {
  const size_t largest = free_.empty() ? 0 : free_.rbegin()->first;
  return absl::ResourceExhaustedError(absl::StrCat(
      owner_, " cannot allocate ", bytes, " bytes: ", in_use_, " of its limit of ", limit_, " bytes are in use",
      why.empty() ? absl::StrCat(", and the largest free piece of its reserved memory has ", largest)
                  : absl::StrCat(", and it could not reserve more: ", why)));
}

DeviceCounters CachingAllocator::counters() const {
  const MutexLock lock(mutex_);
  return {in_use_, peak_, allocations_, limit_};
}

size_t CachingAllocator::reserved() const {
  const MutexLock lock(mutex_);
  return reserved_;
}

}  // namespace belfry
