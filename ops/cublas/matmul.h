// Matrix products on GPUs by cuBLASLt. Internal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "framework/base/dtype.h"
#include "framework/device/device.h"

namespace belfry::ops {

// y [batch, m, n] = a [batch, m, k] * b [batch, k, n], row-major. a is stored as [k, m] if transpose_a, b as [n, k] if
// transpose_b. Between products of the batch, a and b advance by a whole matrix, or stay (same_a, same_b).
struct GpuMatMul {
  int64_t m = 0, n = 0, k = 0, batch = 1;
  bool transpose_a = false, transpose_b = false, same_a = false, same_b = false;
  DType dtype = DType::kFloat32;
  bool bias = false, relu = false;  // applied to every row of y: + bias [n], then ReLU
  bool wide = false;                // y is float32, whatever dtype is. REQUIRES: float16 or bfloat16, no bias
  int64_t alignment = 64;           // of a, b and y, in bytes

  DType result() const { return wide ? DType::kFloat32 : dtype; }
};
struct GpuMatMulOperands {
  const void *a, *b, *bias;
  void *y, *workspace;
};
struct GpuMatMulCore {
  std::function<absl::Status(Stream& stream, const GpuMatMulOperands& operands)> run;
  size_t workspace_bytes = 0;
};

// A core that runs cuBLASLt. Unimplemented if it has no algorithm for this product.
absl::StatusOr<GpuMatMulCore> MakeLibraryGpuMatMul(const GpuMatMul& product, Device& device);

}  // namespace belfry::ops
