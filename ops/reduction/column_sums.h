// Sums over all axes except the last. Internal.
#pragma once

#include <algorithm>
#include <cstdint>

#include "framework/base/parallel.h"
#include "framework/base/shape.h"

namespace belfry::ops {

// Sums [sums, columns] over `rows` rows. Rows are divided into chunks by the sizes only, and the chunks' sums are added
// in ascending order, so results do not depend on the number of threads. C is float or double.
template <class C>
class ColumnSums {
 public:
  ColumnSums(int64_t rows, int64_t columns, int64_t sums = 1) : rows_(rows), width_(sums * columns) {
    chunks_ = std::clamp<int64_t>(rows * columns / kElementsPerChunk, 1, kMaxChunks);
  }

  size_t workspace_bytes() const { return static_cast<size_t>(chunks_ * width_) * sizeof(C); }

  // add(row, total) adds the row's contribution to total [sums, columns]. Returns the sums, at the start of the
  // workspace.
  template <class Add>
  const C* Run(void* workspace, const Add& add) const {
    return RunRanges(workspace, [&](int64_t begin, int64_t end, C* total) {
      for (int64_t row = begin; row < end; ++row) add(row, total);
    });
  }
  // The same with add(begin, end, total) for ranges of rows.
  template <class Add>
  const C* RunRanges(void* workspace, const Add& add) const {
    C* totals = static_cast<C*>(workspace);
    const double cost = 2.0 * static_cast<double>(rows_ * width_) / static_cast<double>(chunks_);
    ParallelFor(chunks_, cost, [&](int64_t begin, int64_t end) {
      for (int64_t chunk = begin; chunk < end; ++chunk) {
        C* total = totals + chunk * width_;
        std::fill_n(total, width_, C(0));
        add(rows_ * chunk / chunks_, rows_ * (chunk + 1) / chunks_, total);
      }
    });
    for (int64_t chunk = 1; chunk < chunks_; ++chunk) {
      for (int64_t i = 0; i < width_; ++i) totals[i] += totals[chunk * width_ + i];
    }
    return totals;
  }

 private:
  static constexpr int64_t kElementsPerChunk = 16 * 1024, kMaxChunks = 64;

  int64_t rows_, width_, chunks_;
};

// Rows of a tensor viewed as a matrix whose columns are the last axis.
inline int64_t RowsOf(const Shape& shape) { return shape.elements(0, shape.rank() - 1); }

}  // namespace belfry::ops
