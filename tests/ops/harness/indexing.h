// Multi-dimensional indices, for references of ops that move elements.
#pragma once

#include <functional>
#include <vector>

#include "tests/ops/harness/op_case.h"

namespace belfry::harness {

using Index = std::vector<int64_t>;

// The element at `index`, which has one entry per axis.
inline double At(const Array& x, const Index& index) {
  int64_t flat = 0;
  for (int axis = 0; axis < x.shape.rank(); ++axis) flat = flat * x.shape[axis] + index[static_cast<size_t>(axis)];
  return x[flat];
}

// The element of `x` that broadcasts to `index` of a larger array.
inline double AtBroadcast(const Array& x, const Index& index) {
  Index own(index.end() - x.shape.rank(), index.end());
  for (int axis = 0; axis < x.shape.rank(); ++axis) {
    if (x.shape[axis] == 1) own[static_cast<size_t>(axis)] = 0;
  }
  return At(x, own);
}

// Calls `visit` for every index of `shape`, in row-major order.
inline void ForEachIndex(const Shape& shape, const std::function<void(const Index&)>& visit) {
  Index index(static_cast<size_t>(shape.rank()));
  for (int64_t i = 0; i < shape.elements(); ++i) {
    int64_t rest = i;
    for (int axis = shape.rank() - 1; axis >= 0; --axis) {
      index[static_cast<size_t>(axis)] = rest % shape[axis];
      rest /= shape[axis];
    }
    visit(index);
  }
}

// The array whose element at `index` is element(index).
inline Array Generate(const Shape& shape, const std::function<double(const Index&)>& element) {
  Array array(shape);
  int64_t i = 0;
  ForEachIndex(shape, [&](const Index& index) { array[i++] = element(index); });
  return array;
}

}  // namespace belfry::harness
