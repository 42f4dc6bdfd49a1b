// Products of small matrices that stay in registers and near caches. For CPU kernels.
#pragma once

#include <cstdint>

#include "ops/simd/vector_impl.h"

namespace belfry::ops::simd {

// c[i, j] = sum over p of a[i, p] b[p, j] for i < m, p < k, and j over `vectors` registers. Each sum is made in
// ascending order of p. Offsets of the elements:
//   a[i, p]         i * a_row + p / a_run * a_jump + p % a_run * a_step
//   b[p, vector j]  p * b_row + j * b_vector
//   c[i, vector j]  i * c_row + j * c_vector
struct Product {
  int64_t m = 0, k = 0, vectors = 0;
  int64_t a_row = 0, a_run = INT64_MAX, a_jump = 0, a_step = 1;
  int64_t b_row = 0, b_vector = 0;
  int64_t c_row = 0, c_vector = 0;
};
// The registers of a row that are computed together: panels of b of this width are read without gaps.
inline constexpr int kProductWidth = kRegisterBytes == 64 ? 4 : 2;
// The rows of a that are multiplied with them together, so that their sums fill the registers.
inline constexpr int kProductRows = 6;
// The rows of a panel of b, k: it stays in the L1 cache, or with AVX-512 in the L2 cache, from which a row comes in the
// time that its products take. Shorter ones would read and write c more often.
inline constexpr int64_t kProductDepth = 256;
// Products of up to kFewRows rows compute kWideProduct together: the sums of fewer would wait for each other.
inline constexpr int kFewRows = 2, kWideProduct = 4;

// C is float or double.
template <class C>
void Multiply(const Product& product, const C* a, const C* b, C* c);
// Adds the product to c.
template <class C>
void MultiplyAndAdd(const Product& product, const C* a, const C* b, C* c);

}  // namespace belfry::ops::simd
