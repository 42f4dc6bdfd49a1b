// Transposition of matrices by registers. For CPU kernels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "ops/simd/vector_impl.h"

namespace belfry::ops::simd {

// Exchanges, between rows i and i + `distance` of a square of registers, the lanes that belong to the other row.
template <class C, int distance, size_t... lanes>
void ExchangeLanes(typename Vector<C>::Lanes (&rows)[sizeof...(lanes)], std::index_sequence<lanes...>) {
  constexpr int kCount = sizeof...(lanes), kAway = kCount - distance;
  for (int i = 0; i < kCount; ++i) {
    if ((i & distance) != 0) continue;
    const auto a = rows[i], b = rows[i + distance];
    rows[i] = __builtin_shufflevector(a, b, (lanes & distance ? lanes + kAway : lanes)...);
    rows[i + distance] = __builtin_shufflevector(a, b, (lanes & distance ? lanes + kCount : lanes + distance)...);
  }
}
template <class C, int distance = Vector<C>::kLanes / 2>
void TransposeSquare(typename Vector<C>::Lanes (&rows)[Vector<C>::kLanes]) {
  if constexpr (distance > 0) {
    ExchangeLanes<C, distance>(rows, std::make_index_sequence<Vector<C>::kLanes>());
    TransposeSquare<C, distance / 2>(rows);
  }
}

// y [columns, y_row] = transpose of x [rows, columns], times `factor`.
template <class C>
void TransposeBlock(const C* x, int64_t x_row, int64_t rows, int64_t columns, C factor, C* y, int64_t y_row) {
  using V = Vector<C>;
  const int64_t whole_rows = rows / V::kLanes * V::kLanes, whole_columns = columns / V::kLanes * V::kLanes;
  for (int64_t i = 0; i < whole_rows; i += V::kLanes) {
    for (int64_t j = 0; j < whole_columns; j += V::kLanes) {
      typename V::Lanes square[V::kLanes];
      for (int k = 0; k < V::kLanes; ++k) square[k] = V::Load(x + (i + k) * x_row + j) * factor;
      TransposeSquare<C>(square);
      for (int k = 0; k < V::kLanes; ++k) V::Store(square[k], y + (j + k) * y_row + i);
    }
  }
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = i < whole_rows ? whole_columns : 0; j < columns; ++j) y[j * y_row + i] = x[i * x_row + j] * factor;
  }
}

}  // namespace belfry::ops::simd
