// Products of small matrices, one at each point of the transformed domain. Internal.
#pragma once

#include <cstdint>

namespace belfry::ops::winograd {

// c[i, j] = sum over p of a[i, p] b[p, j] for i < m, p < k, and j over `vectors` vectors of kLanes floats. Offsets of
// the elements, in floats:
//   a[i, p]         i * a_row + p / a_run * a_jump + p % a_run * a_step
//   b[p, vector j]  p * b_row + j * b_vector
//   c[i, vector j]  i * c_row + j * c_vector
struct Product {
  int64_t m, k, vectors;
  int64_t a_row, a_run, a_jump, a_step;
  int64_t b_row, b_vector;
  int64_t c_row, c_vector;
};
void Multiply(const Product& product, const float* a, const float* b, float* c);
// Adds the product to c.
void MultiplyAndAdd(const Product& product, const float* a, const float* b, float* c);

}  // namespace belfry::ops::winograd
