// Sums over all axes but the last. Internal: it includes Eigen.
#pragma once

#include <algorithm>
#include <cstdint>

#include "framework/base/parallel.h"
#include "framework/base/shape.h"
#include "ops/nn/nn_impl.h"

namespace belfry::ops {

// x [rows, columns] to y [columns]. Rows are cut into chunks that depend on the shape only and whose sums are added in
// ascending order, so that the bits do not depend on the number of threads.
template <class T>
class ColumnSums {
 public:
  using C = Compute<T>;

  explicit ColumnSums(const Shape& shape) : columns_(shape[-1]) {
    rows_ = columns_ == 0 ? 0 : shape.elements() / columns_;
    chunks_ = std::clamp<int64_t>(rows_ * columns_ / kElementsPerChunk, 1, kMaxChunks);
  }

  int64_t columns() const { return columns_; }
  size_t workspace_bytes() const { return static_cast<size_t>(chunks_ * columns_) * sizeof(C); }

  void Run(const T* x, T* y, void* workspace) const {
    C* sums = static_cast<C*>(workspace);
    ParallelFor(chunks_, static_cast<double>(rows_ * columns_) / static_cast<double>(chunks_),
                [&](int64_t begin, int64_t end) {
                  for (int64_t chunk = begin; chunk < end; ++chunk) SumChunk(x, chunk, sums + chunk * columns_);
                });
    for (int64_t chunk = 1; chunk < chunks_; ++chunk) {
      for (int64_t c = 0; c < columns_; ++c) sums[c] += sums[chunk * columns_ + c];
    }
    Store(sums, columns_, y);
  }

 private:
  static constexpr int64_t kElementsPerChunk = 16 * 1024, kMaxChunks = 64;

  void SumChunk(const T* x, int64_t chunk, C* sum) const {
    std::fill_n(sum, columns_, C(0));
    for (int64_t row = rows_ * chunk / chunks_; row < rows_ * (chunk + 1) / chunks_; ++row) {
      const T* from = x + row * columns_;
      for (int64_t c = 0; c < columns_; ++c) sum[c] += static_cast<C>(from[c]);
    }
  }

  int64_t rows_, columns_, chunks_;
};

}  // namespace belfry::ops
