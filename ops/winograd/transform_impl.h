// Transforms of tiles by the matrices of matrices.h, one vector of channels at a time. Internal.
#pragma once

#include <cstddef>
#include <utility>

#include "ops/simd/vector_impl.h"

namespace belfry::ops::winograd {

using Lanes = simd::Vector<float>::Lanes;
inline constexpr int kLanes = simd::Vector<float>::kLanes;
using simd::Load;
using simd::Store;

// The axis of a matrix that runs over the points 0, p, -p, q, -q, ..., a single one if their number is odd, infinity.
enum class PointAxis { kRows, kColumns };

// sum += factor x, where factors 0, 1 and -1 take no multiplication; the first term initialises the sum.
template <const auto& matrix, size_t row, size_t column>
inline void AddTerm(Lanes x, Lanes& sum, bool& first) {
  constexpr float factor = matrix.at[row][column];
  if constexpr (factor != 0) {
    if (first) {
      sum = factor == 1 ? x : factor * x;
    } else if constexpr (factor == 1) {
      sum += x;
    } else if constexpr (factor == -1) {
      sum -= x;
    } else {
      sum += factor * x;
    }
    first = false;
  }
}

// The sum over columns begin, begin + step, ...
template <const auto& matrix, size_t row, size_t begin, size_t step, size_t... i>
inline Lanes PartOfRow(const Lanes* x, std::index_sequence<i...>) {
  Lanes sum = {};
  bool first = true;
  (AddTerm<matrix, row, begin + step * i>(x[begin + step * i], sum, first), ...);
  return sum;
}

template <const auto& matrix, size_t row>
inline Lanes WholeRow(const Lanes* x) {
  return PartOfRow<matrix, row, 0, 1>(x, std::make_index_sequence<matrix.columns>());
}

// The factor between a row and the row after it, except for the signs of the odd columns. 1 unless a single point
// stands at different distances from p and -p.
template <const auto& matrix, size_t row>
constexpr float RatioOfPair() {
  for (int i = 0; i < matrix.columns; ++i) {
    if (matrix.at[row][i] != 0) return (i % 2 == 0 ? 1 : -1) * matrix.at[row + 1][i] / matrix.at[row][i];
  }
  return 0;
}

// Rows 2k + 1 and 2k + 2 belong to p and -p, so they differ only in the signs of the odd columns, and by a factor.
template <const auto& matrix, size_t... k>
inline void PairsOfRows(const Lanes* x, Lanes* y, std::index_sequence<k...>) {
  constexpr size_t columns = matrix.columns, last = matrix.rows - 1;
  y[0] = WholeRow<matrix, 0>(x);
  (
      [&] {
        const Lanes even = PartOfRow<matrix, 2 * k + 1, 0, 2>(x, std::make_index_sequence<(columns + 1) / 2>());
        const Lanes odd = PartOfRow<matrix, 2 * k + 1, 1, 2>(x, std::make_index_sequence<columns / 2>());
        constexpr float ratio = RatioOfPair<matrix, 2 * k + 1>();
        y[2 * k + 1] = even + odd;
        y[2 * k + 2] = ratio == 1 ? even - odd : ratio * (even - odd);
      }(),
      ...);
  y[last] = WholeRow<matrix, last>(x);
}

// In B^T with a single point s, no rows of a pair are alike, but their quotients by x - s are. These apply to
// differences, since x^i (x - s) stands for x[i + 1] - s x[i].
template <const auto& matrix>
inline void RowsOfPoints(const Lanes* x, Lanes* y) {
  constexpr auto pairs = std::make_index_sequence<(matrix.rows - 2) / 2>();
  if constexpr (matrix.single != 0) {
    Lanes differences[matrix.columns - 1];
#pragma GCC unroll 16
    for (int i = 0; i + 1 < matrix.columns; ++i) differences[i] = x[i + 1] - matrix.single * x[i];
    PairsOfRows<kQuotients<matrix>>(differences, y, pairs);
  } else {
    PairsOfRows<matrix>(x, y, pairs);
  }
  if constexpr (matrix.rows % 2 == 1) y[matrix.rows - 2] = WholeRow<matrix, matrix.rows - 2>(x);
}

// Columns 2k + 1 and 2k + 2 belong to p and -p, so they are equal in even rows and opposite in odd ones.
template <const auto& matrix, size_t row, size_t... k>
inline Lanes RowOfPairs(const Lanes* x, const Lanes* pairs, std::index_sequence<k...>) {
  constexpr size_t last = matrix.columns - 1;
  Lanes sum = {};
  bool first = true;
  AddTerm<matrix, row, 0>(x[0], sum, first);
  (AddTerm<matrix, row, 2 * k + 1>(pairs[k], sum, first), ...);
  if constexpr (last % 2 == 0) AddTerm<matrix, row, last - 1>(x[last - 1], sum, first);
  AddTerm<matrix, row, last>(x[last], sum, first);
  return sum;
}
template <const auto& matrix, size_t... rows>
inline void PairsOfColumns(const Lanes* x, Lanes* y, std::index_sequence<rows...>) {
  constexpr size_t count = (matrix.columns - 2) / 2;
  Lanes sums[count], differences[count];
#pragma GCC unroll 4
  for (size_t k = 0; k < count; ++k) {
    sums[k] = x[2 * k + 1] + x[2 * k + 2];
    differences[k] = x[2 * k + 1] - x[2 * k + 2];
  }
  ((y[rows] = RowOfPairs<matrix, rows>(x, rows % 2 == 0 ? sums : differences, std::make_index_sequence<count>())), ...);
}

// y = matrix x.
template <const auto& matrix, PointAxis axis>
inline void Transform(const Lanes* x, Lanes* y) {
  if constexpr (axis == PointAxis::kRows) {
    RowsOfPoints<matrix>(x, y);
  } else {
    PairsOfColumns<matrix>(x, y, std::make_index_sequence<matrix.rows>());
  }
}

// Strides of a matrix of vectors, in floats, between rows and between columns.
struct Steps {
  int64_t row, column;
};

// to = matrix X, where load(j, x) gives column j of X.
template <const auto& matrix, PointAxis axis, class Columns>
inline void TransformColumns(const Columns& load, Lanes (&to)[matrix.rows][matrix.columns]) {
#pragma GCC unroll 1
  for (int j = 0; j < matrix.columns; ++j) {
    Lanes column[matrix.columns], transformed[matrix.rows];
    load(j, column);
    Transform<matrix, axis>(column, transformed);
#pragma GCC unroll 16
    for (int i = 0; i < matrix.rows; ++i) to[i][j] = transformed[i];
  }
}

// Y = matrix X matrix^T, where load(j, x) gives column j of X and store(i, y) receives row i of Y.
template <const auto& matrix, PointAxis axis, class Columns, class Rows>
inline void Transform2D(const Columns& load, const Rows& store) {
  Lanes half[matrix.rows][matrix.columns];
  TransformColumns<matrix, axis>(load, half);
#pragma GCC unroll 1
  for (int i = 0; i < matrix.rows; ++i) {
    Lanes transformed[matrix.rows];
    Transform<matrix, axis>(half[i], transformed);
    store(i, transformed);
  }
}

// Loads column j of the matrix that starts at x.
template <int rows, class T>
inline void LoadColumn(const T* x, Steps steps, int j, Lanes* column) {
#pragma GCC unroll 16
  for (int i = 0; i < rows; ++i) column[i] = Load(x + i * steps.row + j * steps.column);
}
template <int columns, class T>
inline void StoreRow(const Lanes* row, T* y, Steps steps, int i) {
#pragma GCC unroll 16
  for (int j = 0; j < columns; ++j) Store(row[j], y + i * steps.row + j * steps.column);
}

template <const auto& matrix, PointAxis axis, class From>
inline void Transform2D(const From* x, Steps x_steps, float* y, Steps y_steps) {
  Transform2D<matrix, axis>([=](int j, Lanes* column) { LoadColumn<matrix.columns>(x, x_steps, j, column); },
                            [=](int i, const Lanes* row) { StoreRow<matrix.rows>(row, y, y_steps, i); });
}

}  // namespace belfry::ops::winograd
