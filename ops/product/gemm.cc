#include <algorithm>
#include <type_traits>

#include "framework/base/parallel.h"
#include "ops/elementwise/functors.h"
#include "ops/product/gemm_impl.h"

namespace belfry::ops {
namespace {

// The tile of c that stays in registers: kTileRows rows of kTileBytes bytes.
constexpr int64_t kTileRows = 4, kTileBytes = 256;

template <class T, int64_t rows, int64_t columns>
void FullTile(const T* a, const T* b, T* c, int64_t n, int64_t k) {
  using W = typename functor::Wrapping<T>::type;
  W sum[rows][columns] = {};
  for (int64_t p = 0; p < k; ++p) {
    for (int64_t i = 0; i < rows; ++i) {
      const W x = static_cast<W>(a[i * k + p]);
      for (int64_t j = 0; j < columns; ++j) sum[i][j] += x * static_cast<W>(b[p * n + j]);
    }
  }
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) c[i * n + j] = static_cast<T>(sum[i][j]);
  }
}

template <class T>
void PartTile(const T* a, const T* b, T* c, int64_t n, int64_t k, int64_t rows, int64_t columns) {
  using W = typename functor::Wrapping<T>::type;
  for (int64_t i = 0; i < rows; ++i) {
    W sum[kTileBytes / sizeof(T)] = {};
    for (int64_t p = 0; p < k; ++p) {
      const W x = static_cast<W>(a[i * k + p]);
      for (int64_t j = 0; j < columns; ++j) sum[j] += x * static_cast<W>(b[p * n + j]);
    }
    for (int64_t j = 0; j < columns; ++j) c[i * n + j] = static_cast<T>(sum[j]);
  }
}

template <class T>
void GemmRows(const T* a, const T* b, T* c, int64_t m, int64_t n, int64_t k) {
  constexpr int64_t kTileColumns = kTileBytes / sizeof(T);
  for (int64_t j = 0; j < n; j += kTileColumns) {
    const int64_t columns = std::min(kTileColumns, n - j);
    for (int64_t i = 0; i < m; i += kTileRows) {
      const int64_t rows = std::min(kTileRows, m - i);
      if (rows == kTileRows && columns == kTileColumns) {
        FullTile<T, kTileRows, kTileColumns>(a + i * k, b + j, c + i * n + j, n, k);
      } else {
        PartTile(a + i * k, b + j, c + i * n + j, n, k, rows, columns);
      }
    }
  }
}

}  // namespace

template <class T>
void Gemm(const T* a, const T* b, T* c, int64_t m, int64_t n, int64_t k) {
  const int64_t tiles = (m + kTileRows - 1) / kTileRows;
  ParallelFor(tiles, static_cast<double>(kTileRows * n * k) / 8, [=](int64_t begin, int64_t end) {
    const int64_t first = begin * kTileRows, last = std::min(m, end * kTileRows);
    GemmRows(a + first * k, b, c + first * n, last - first, n, k);
  });
}

template <class T>
void TransposeMatrix(const T* x, T* y, int64_t rows, int64_t columns) {
  constexpr int64_t kTile = 16;
  for (int64_t i0 = 0; i0 < rows; i0 += kTile) {
    for (int64_t j0 = 0; j0 < columns; j0 += kTile) {
      for (int64_t j = j0; j < std::min(columns, j0 + kTile); ++j) {
        for (int64_t i = i0; i < std::min(rows, i0 + kTile); ++i) y[j * rows + i] = x[i * columns + j];
      }
    }
  }
}

template void Gemm(const float*, const float*, float*, int64_t, int64_t, int64_t);
template void Gemm(const double*, const double*, double*, int64_t, int64_t, int64_t);
template void Gemm(const int32_t*, const int32_t*, int32_t*, int64_t, int64_t, int64_t);
template void Gemm(const int64_t*, const int64_t*, int64_t*, int64_t, int64_t, int64_t);
template void TransposeMatrix(const float*, float*, int64_t, int64_t);
template void TransposeMatrix(const double*, double*, int64_t, int64_t);
template void TransposeMatrix(const int32_t*, int32_t*, int64_t, int64_t);
template void TransposeMatrix(const int64_t*, int64_t*, int64_t, int64_t);

}  // namespace belfry::ops
