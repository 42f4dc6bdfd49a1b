// Reading rows of a tensor in CPU kernels.
#pragma once

#include <algorithm>
#include <cstdint>

#include "ops/common/compute_impl.h"

namespace belfry::ops {

// Rows are read in pieces of this many elements, so that a row of 16-bit floats has room on the stack.
inline constexpr int64_t kRowPiece = 1024;

// A piece of a row in the type that it is computed in: the row itself, or memory for 16-bit floats.
template <class T>
class PieceBuffer {
 public:
  const Compute<T>* Read(const T* x, int64_t n) { return Widened(x, memory_, n); }
  // Where to compute a piece of y, and how to store it there afterwards.
  Compute<T>* Target(T* y) { return Wide(y, memory_); }
  void Write(T* y, int64_t n) const { Narrowed(memory_, y, n); }

 private:
  alignas(64) Compute<T> memory_[kIsSixteenBit<T> ? kRowPiece : 1];
};

// Calls body(first, n, x) for the pieces of a row, which x holds in the type they are computed in.
template <class T, class Body>
[[gnu::always_inline]] inline void ForRowPieces(const T* row, int64_t n, const Body& body) {
  PieceBuffer<T> buffer;
  for (int64_t first = 0; first < n; first += kRowPiece) {
    const int64_t size = std::min(kRowPiece, n - first);
    body(first, size, buffer.Read(row + first, size));
  }
}

// The sum of term(i) for i in [0, n).
template <class C, class Term>
C SimdSum(int64_t n, Term term) {
  C sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) sum += term(i);
  return sum;
}

}  // namespace belfry::ops
