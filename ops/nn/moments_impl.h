// Mean and variance of each column. Internal.
#pragma once

#include "ops/nn/column_sums.h"
#include "ops/nn/nn_impl.h"

namespace belfry::ops {

// The dtype of vectors over channels: T's own, or float32 for 16 bits. Type variable "U" of the op.
inline DType WideDType(DType dtype) { return dtype == DType::kFloat64 ? dtype : DType::kFloat32; }
inline ArgDef Wide(const char* name) { return {.name = name, .type = "U"}; }

// Of x [rows, columns]: the mean over the rows, then the mean of the squared differences from it. `sums` is
// ColumnSums<C>(rows, columns) and `workspace` has its size; without rows both are 0.
template <class T, class C>
void ColumnMoments(const ColumnSums<C>& sums, void* workspace, int64_t rows, int64_t columns, const T* x, C* mean,
                   C* variance) {
  const C share = rows == 0 ? C(0) : 1 / static_cast<C>(rows);
  const C* total = sums.Run(workspace, [=](int64_t row, C* to) {
    for (int64_t c = 0; c < columns; ++c) to[c] += static_cast<C>(x[row * columns + c]);
  });
  for (int64_t c = 0; c < columns; ++c) mean[c] = total[c] * share;
  total = sums.Run(workspace, [=](int64_t row, C* to) {
    for (int64_t c = 0; c < columns; ++c) {
      const C difference = static_cast<C>(x[row * columns + c]) - mean[c];
      to[c] += difference * difference;
    }
  });
  for (int64_t c = 0; c < columns; ++c) variance[c] = total[c] * share;
}

}  // namespace belfry::ops
