#include <cstring>
#include <vector>

#include "models/onnx/permute_impl.h"

namespace belfry::onnx {

Tensor Permuted(const Tensor& x, absl::Span<const int64_t> perm) {
  const int rank = x.shape().rank();
  std::vector<int64_t> extents, strides(perm.size());
  for (const int64_t axis : perm) extents.push_back(x.shape()[static_cast<int>(axis)]);
  for (size_t i = 0; i < perm.size(); ++i) strides[i] = x.shape().elements(static_cast<int>(perm[i]) + 1, rank);
  Tensor y(x.dtype(), Shape(absl::MakeConstSpan(extents)));
  const size_t size = SizeOf(x.dtype());
  const auto* const from = static_cast<const char*>(x.raw());
  auto* const to = static_cast<char*>(y.raw());
  std::vector<int64_t> index(perm.size());
  for (int64_t i = 0, at = 0; i < y.elements(); ++i) {
    std::memcpy(to + static_cast<size_t>(i) * size, from + static_cast<size_t>(at) * size, size);
    for (size_t axis = perm.size(); axis-- > 0;) {
      at += strides[axis];
      if (++index[axis] < extents[axis]) break;
      at -= extents[axis] * strides[axis];
      index[axis] = 0;
    }
  }
  return y;
}

Tensor WithBlocks(const Tensor& x, absl::Span<const int64_t> order) {
  const int64_t rows = x.shape()[0], blocks = static_cast<int64_t>(order.size()), width = x.shape()[1] / blocks;
  const size_t bytes = static_cast<size_t>(width) * SizeOf(x.dtype());
  Tensor y(x.dtype(), x.shape());
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t i = 0; i < blocks && bytes > 0; ++i) {
      std::memcpy(static_cast<char*>(y.raw()) + static_cast<size_t>(row * blocks + i) * bytes,
                  static_cast<const char*>(x.raw()) + static_cast<size_t>(row * blocks + order[i]) * bytes, bytes);
    }
  }
  return y;
}

}  // namespace belfry::onnx
