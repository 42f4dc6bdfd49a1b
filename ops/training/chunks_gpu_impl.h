// Several tensors laid out as one row of chunks, each processed by one team. Only for .cu files.
#pragma once

#include <cstdint>

#include "framework/device/cuda/launch.h"

namespace belfry::ops {

inline int64_t ChunksOf(int64_t elements, int64_t size) { return (elements + size - 1) / size; }

// Up to `capacity` tensors, in chunks of `size` elements.
template <int capacity, int64_t size>
struct TensorChunks {
  int64_t elements[capacity];   // of each tensor
  int64_t first[capacity + 1];  // first chunk of each tensor
  int count = 0;                // number of tensors

  bool full() const { return count == capacity; }
  int64_t chunks() const { return count == 0 ? 0 : first[count]; }

  // REQUIRES: n > 0, and not full.
  void Add(int64_t n) {
    if (count == 0) first[0] = 0;
    elements[count] = n;
    first[count + 1] = first[count] + ChunksOf(n, size);
    ++count;
  }

  // Elements [begin, begin + n) of a tensor.
  struct Part {
    int tensor;
    int64_t begin, n;
  };
  BELFRY_GPU Part Find(int64_t chunk) const {
    int low = 0, high = count - 1;  // binary search for the last tensor that begins at or before the chunk
    while (low < high) {
      const int middle = (low + high + 1) / 2;
      if (first[middle] <= chunk) {
        low = middle;
      } else {
        high = middle - 1;
      }
    }
    const int64_t begin = (chunk - first[low]) * size, rest = elements[low] - begin;
    return {low, begin, rest < size ? rest : size};
  }
};

}  // namespace belfry::ops
