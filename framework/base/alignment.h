// Where memory begins.
#pragma once

#include <cstddef>

namespace belfry {

// Tensors, variables, workspaces and the parts of these lie at multiples of this, in bytes: a cache line, and what the
// widest vectors want.
inline constexpr size_t kAlignment = 64;

// The least multiple of `alignment` from `bytes` on.
constexpr size_t AlignUp(size_t bytes, size_t alignment = kAlignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

}  // namespace belfry
