// Matrix products, plain and batched.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "framework/base/dtype.h"
#include "framework/base/shape.h"
#include "ops/onednn/primitive.h"

namespace belfry::ops::onednn {

// y[batch, m, n] = op(a)[batch, m, k] op(b)[batch, k, n], all row-major. A transposed a is stored as [.., k, m], a
// transposed b as [.., n, k]. The batch dimensions of a and b broadcast as in NumPy, and y has the result. All sizes
// are at least 1.
struct MatMulShape {
  Shape a_batch, b_batch;
  int64_t m, k, n;
  bool transpose_a = false, transpose_b = false;
  DType dtype = DType::kFloat32;         // of a and b: float32, or bfloat16 with sums in float32
  DType output_dtype = DType::kFloat32;  // of y and the bias: float32, or bfloat16 if dtype is

  // "matmul float32 [4]x[128,2304] * [2304,384]".
  std::string DebugString() const;
};

struct MatMulOptions {
  bool bias = false;  // [n], added to every row
  Epilogue post_ops;
};

// Inputs a, b[, bias]; output y. Where ProductsRepeat(dtype), y has the same bits for any number of threads: long sums
// that the library would split among threads are made up of shorter ones, and Unimplemented is returned if it cannot do
// these.
absl::StatusOr<Primitive> MatMul(const MatMulShape& shape, const MatMulOptions& options = {});

}  // namespace belfry::ops::onednn
