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

// The GELU's argument has rows of this many elements or a multiple (CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD).
inline constexpr int64_t kUnitOfGelu = 8;

// The end of a product: its formula for y, apart from the product itself. The GELU is the form with tanh
// (CUBLASLT_EPILOGUE_GELU).
enum class GpuMatMulEnd {
  kNone,
  kBias,          // + bias [n]
  kBiasRelu,      // ReLU of that
  kBiasGelu,      // GELU of that
  kBiasKeepGelu,  // the same; x [m, n] is written: the GELU's argument
  kGeluGrad,      // times the slope of the GELU at x [m, n]
  kBiasGrad,      // nothing; dbias [n] is written: the sums of b over k
};

// y [batch, m, n] = a [batch, m, k] * b [batch, k, n], row-major. a is stored as [k, m] if transpose_a, b as [n, k] if
// transpose_b. Between products of the batch, a and b advance by a whole matrix, or stay (same_a, same_b).
struct GpuMatMul {
  int64_t m = 0, n = 0, k = 0, batch = 1;
  bool transpose_a = false, transpose_b = false, same_a = false, same_b = false;
  DType dtype = DType::kFloat32;
  GpuMatMulEnd end = GpuMatMulEnd::kNone;  // from kBiasKeepGelu on: REQUIRES batch = 1
  bool wide = false;                       // y is float32, whatever dtype is. REQUIRES: float16 or bfloat16, no end
  int64_t alignment = 64;                  // of a, b and y, in bytes

  DType result() const { return wide ? DType::kFloat32 : dtype; }
};
struct GpuMatMulOperands {
  const void *a = nullptr, *b = nullptr;
  void *y = nullptr, *workspace = nullptr;
  const void* bias = nullptr;
  void *x = nullptr, *dbias = nullptr;
};
struct GpuMatMulCore {
  std::function<absl::Status(Stream& stream, const GpuMatMulOperands& operands)> run;
  size_t workspace_bytes = 0;
};

// A core that runs cuBLASLt. Unimplemented if it has no algorithm for this product.
absl::StatusOr<GpuMatMulCore> MakeLibraryGpuMatMul(const GpuMatMul& product, Device& device);

}  // namespace belfry::ops
