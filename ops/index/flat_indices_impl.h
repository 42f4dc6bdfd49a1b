#pragma once

#include <cstdint>

#include "framework/graph/op_def.h"

namespace belfry::ops {

// Indices of several axes at once: those of the leading axes of a tensor, whose extents these are.
struct FlatIndicesLayout {
  static constexpr int kMaxAxes = 16;
  int axes = 0;
  int64_t extents[kMaxAxes] = {};

  // From the inputs of a FlatIndices node: indices [..., axes], and the tensor.
  explicit FlatIndicesLayout(const KernelSpec& spec);

  // The row-major number of an index; -1 if it is out of range.
  template <class Index>
  constexpr int64_t Row(const Index* index) const {
    int64_t row = 0;
    for (int axis = 0; axis < axes; ++axis) {
      if (index[axis] < 0 || index[axis] >= extents[axis]) return -1;
      row = row * extents[axis] + index[axis];
    }
    return row;
  }
};

}  // namespace belfry::ops
