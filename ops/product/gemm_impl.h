// Matrix products without a library: for double, for integers, and for products too small to repay a library call.
#pragma once

#include <cstdint>

namespace belfry::ops {

// c [m, n] = a [m, k] * b [k, n], row-major and contiguous. T is float, double, int32_t or int64_t; integers wrap
// around. Parallel over rows; each element sums its k products in order.
template <class T>
void Gemm(const T* a, const T* b, T* c, int64_t m, int64_t n, int64_t k);

// y [columns, rows] = transpose of x [rows, columns].
template <class T>
void TransposeMatrix(const T* x, T* y, int64_t rows, int64_t columns);

}  // namespace belfry::ops
