// Alignment of memory.
#pragma once

#include <cstddef>

namespace belfry {

// Alignment in bytes of tensors, variables, workspaces and their parts: one cache line, and enough for the widest
// vector loads.
inline constexpr size_t kAlignment = 64;

// Rounds `bytes` up to a multiple of `alignment`.
constexpr size_t AlignUp(size_t bytes, size_t alignment = kAlignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

// The bytes of each of `ranks` equal slices of `bytes` bytes: whole cache lines, so the last slices may reach beyond.
constexpr size_t SliceBytes(size_t bytes, size_t ranks) { return AlignUp((bytes + ranks - 1) / ranks); }

}  // namespace belfry
