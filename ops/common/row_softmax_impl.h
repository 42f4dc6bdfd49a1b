// Softmax over rows, for CPU kernels of softmax and cross-entropy.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "ops/common/row_pieces_impl.h"
#include "ops/simd/math_impl.h"

namespace belfry::ops {

// The largest of some numbers and `top`; NaN loses, and gives sums of exponentials that are NaN.
template <class C>
C LargestOf(const C* x, int64_t n, C top = -std::numeric_limits<C>::infinity()) {
#pragma omp simd reduction(max : top)
  for (int64_t i = 0; i < n; ++i) top = x[i] > top ? x[i] : top;
  return top;
}
template <class T>
Compute<T> LargestOfRow(const T* row, int64_t n) {
  Compute<T> top = -std::numeric_limits<Compute<T>>::infinity();
  ForRowPieces(row, n, [&](int64_t, int64_t size, const Compute<T>* x) { top = LargestOf(x, size, top); });
  return top;
}

// e[i] = exp((x[i] - top) scale); returns their sum. e may be x.
template <class C>
C Exponentials(const C* x, int64_t n, C top, C scale, C* e) {
  C sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) {
    const C value = simd::ExpOfNegative((x[i] - top) * scale);
    e[i] = value;
    sum += value;
  }
  return sum;
}
// The sum alone.
template <class C>
C SumOfExponentials(const C* x, int64_t n, C top, C scale) {
  C sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) sum += simd::ExpOfNegative((x[i] - top) * scale);
  return sum;
}

template <class C>
void MultiplyBy(C factor, C* x, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) x[i] *= factor;
}

// Softmax of [rows, n] with logits multiplied by `scale`, row by row; y may be x. The visitor sees each row:
//   void Begin(row, x, top)          before x is overwritten; `top` is the largest element
//   void Change(row, first, size, p) may change the probabilities, which come in pieces from element `first` on
//   void End(row, sum)               the sum of exp((x - top) scale)
template <class T>
class RowSoftmax {
 public:
  using C = Compute<T>;

  template <class Visitor>
  void Run(const T* x, int64_t rows, int64_t n, C scale, T* y, Visitor& visitor) {
    const int64_t together = n > 0 ? kRowPiece / n : kRowPiece;
    if (together == 0) {
      for (int64_t row = 0; row < rows; ++row) LongRow(x + row * n, row, n, scale, y + row * n, visitor);
    }
    for (int64_t row = 0; together > 0 && row < rows; row += together) {
      ShortRows(x + row * n, row, std::min(together, rows - row), n, scale, y + row * n, visitor);
    }
  }

 private:
  // Step by step over several rows, so that the exponentials fill vectors however short a row is, and a row need not
  // wait for the sum of the one before.
  template <class Visitor>
  void ShortRows(const T* x, int64_t row, int64_t rows, int64_t n, C scale, T* y, Visitor& visitor) {
    const C* from = in_.Read(x, rows * n);
    for (int64_t r = 0; r < rows; ++r) {
      const C top = top_[r] = LargestOf(from + r * n, n);
#pragma omp simd
      for (int64_t i = r * n; i < (r + 1) * n; ++i) e_[i] = (from[i] - top) * scale;
    }
#pragma omp simd
    for (int64_t i = 0; i < rows * n; ++i) e_[i] = simd::ExpOfNegative(e_[i]);
    for (int64_t r = 0; r < rows; ++r) sum_[r] = SimdSum<C>(n, [e = e_ + r * n](int64_t i) { return e[i]; });
    for (int64_t r = 0; r < rows; ++r) {
      visitor.Begin(row + r, x + r * n, top_[r]);
      MultiplyBy(1 / sum_[r], e_ + r * n, n);
      visitor.Change(row + r, 0, n, e_ + r * n);
      visitor.End(row + r, sum_[r]);
      if constexpr (!kIsSixteenBit<T>) std::copy_n(e_ + r * n, n, y + r * n);
    }
    if constexpr (kIsSixteenBit<T>) Store(e_, rows * n, y);
  }

  // Each exponential is computed once and kept in y, except for 16-bit floats.
  template <class Visitor>
  void LongRow(const T* x, int64_t row, int64_t n, C scale, T* y, Visitor& visitor) {
    const C top = LargestOfRow(x, n);
    visitor.Begin(row, x, top);
    C sum = 0;
    ForRowPieces(x, n, [&](int64_t first, int64_t size, const C* from) {
      if constexpr (kIsSixteenBit<T>) {
        sum += SumOfExponentials(from, size, top, scale);
      } else {
        sum += Exponentials(from, size, top, scale, y + first);
      }
    });
    for (int64_t first = 0; first < n; first += kRowPiece) {
      const int64_t size = std::min(kRowPiece, n - first);
      C* p = in_.Target(y + first);
      if constexpr (kIsSixteenBit<T>) Exponentials(in_.Read(x + first, size), size, top, scale, p);
      MultiplyBy(1 / sum, p, size);
      visitor.Change(row, first, size, p);
      in_.Write(y + first, size);
    }
    visitor.End(row, sum);
  }

  PieceBuffer<T> in_;
  alignas(64) C e_[kRowPiece], top_[kRowPiece], sum_[kRowPiece];
};

}  // namespace belfry::ops
