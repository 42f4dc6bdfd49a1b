#include "tests/fake_gpu/apart_memory.h"

#include <sys/mman.h>

#include <algorithm>

#include "framework/base/check.h"

namespace belfry {
namespace {

constexpr size_t kPage = 4096;

}  // namespace

bool ApartMemory::Reaches(int from, int to) const {
  return std::none_of(apart_.begin(), apart_.end(), [&](const std::pair<int, int>& pair) {
    return pair == std::pair(from, to) || pair == std::pair(to, from);
  });
}

void* ApartMemory::Allocate(int gpu, size_t bytes) {
  if (bytes == 0) return nullptr;
  const size_t whole = (bytes + kPage - 1) / kPage * kPage;
  void* const memory = mmap(nullptr, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  BELFRY_CHECK(memory != MAP_FAILED);
  const MutexLock lock(mutex_);
  blocks_[memory] = {gpu, whole};
  return memory;
}

void ApartMemory::Free(void* memory) {
  if (memory == nullptr) return;
  const MutexLock lock(mutex_);
  const auto block = blocks_.find(memory);
  BELFRY_CHECK(block != blocks_.end());
  BELFRY_CHECK(munmap(memory, block->second.bytes) == 0);
  blocks_.erase(block);
}

void ApartMemory::Protect(int gpu, int protection) {
  for (const auto& [memory, block] : blocks_) {
    if (!Reaches(gpu, block.gpu)) BELFRY_CHECK(mprotect(memory, block.bytes, protection) == 0);
  }
}

absl::Status ApartMemory::RunKernel(int gpu, absl::FunctionRef<absl::Status()> kernel) {
  const MutexLock lock(mutex_);
  Protect(gpu, PROT_NONE);
  const absl::Status status = kernel();
  Protect(gpu, PROT_READ | PROT_WRITE);
  return status;
}

absl::Status ApartMemory::RunCopy(absl::FunctionRef<absl::Status()> copy) {
  const MutexLock lock(mutex_);
  return copy();
}

}  // namespace belfry
