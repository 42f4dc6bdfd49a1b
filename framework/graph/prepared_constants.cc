#include "framework/graph/prepared_constants.h"

#include <algorithm>

#include "framework/base/alignment.h"
#include "framework/base/check.h"
#include "framework/base/tensor.h"
#include "framework/graph/kernel.h"

namespace belfry {
namespace {

// Chunks grow, so that small models take little, and large ones have huge pages: the weights of a network, which every
// inference reads once, are then in a few dozen pages.
constexpr size_t kFirstChunk = size_t{64} << 10, kLastChunk = size_t{32} << 20;

}  // namespace

PreparedConstants::~PreparedConstants() {
  for (void* chunk : chunks_) FreeAligned(chunk);
}

void* PreparedConstants::Allocate(size_t bytes) {
  bytes = AlignUp(bytes);
  if (bytes > left_) {
    chunk_bytes_ = std::clamp(2 * chunk_bytes_, kFirstChunk, kLastChunk);
    const size_t size = std::max(bytes, chunk_bytes_);
    void* const chunk = AllocateAligned(size);
    if (chunk == nullptr) return nullptr;
    chunks_.push_back(chunk);
    // The chunk with more room left goes on being filled.
    if (size - bytes <= left_) return chunk;
    free_ = static_cast<char*>(chunk);
    left_ = size;
  }
  void* const result = free_;
  free_ += bytes;
  left_ -= bytes;
  return result;
}

const void* PreparedConstants::Get(int node, int input, const void* data, size_t bytes,
                                   absl::FunctionRef<bool(const void* data, void* form)> write) {
  const MutexLock lock(mutex_);
  const auto found = forms_.find({node, input});
  if (found != forms_.end()) {
    BELFRY_CHECK(found->second.bytes == bytes);
    return found->second.data;
  }
  if (data == nullptr || bytes == 0) return nullptr;
  void* const form = Allocate(bytes);
  if (form == nullptr) return nullptr;
  if (!write(data, form)) {
    if (static_cast<char*>(form) + AlignUp(bytes) == free_) {
      free_ -= AlignUp(bytes);
      left_ += AlignUp(bytes);
    }
    return nullptr;
  }
  forms_[{node, input}] = {form, bytes};
  return form;
}

bool PreparedConstants::Has(int node, int input) const {
  const MutexLock lock(mutex_);
  return forms_.count({node, input}) > 0;
}

const void* KernelSpec::Prepared(int input, size_t bytes,
                                 absl::FunctionRef<bool(const void* data, void* form)> write) const {
  return prepared == nullptr ? nullptr : prepared->Get(node, input, constant(input), bytes, write);
}

}  // namespace belfry
