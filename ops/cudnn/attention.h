// Attention on GPUs by a library. Internal.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "framework/base/dtype.h"
#include "framework/device/device.h"
#include "ops/gpu/library_core.h"

namespace belfry::ops {

// Attention of q [n, t, h, d] with k and v [n, s, g, d]. q_row, k_row and y_row are the distances between rows, in
// elements.
struct GpuAttention {
  bool gradient = false;
  DType dtype = DType::kBFloat16;
  int64_t n = 0, t = 0, s = 0, h = 0, g = 0, d = 0;
  int64_t q_row = 0, k_row = 0, y_row = 0;
  bool causal = false;
  float scale = 1;
};

// Operands: q, k, v, y and the scores' log-sum-exp, float32 [n, h, t]; for the gradient also dy, dq, dk and dv, whose
// rows lie as in y, q, k and v. Unimplemented if the library does not support it.
absl::StatusOr<LibraryCore> MakeLibraryGpuAttention(const GpuAttention& attention, Device& device);

}  // namespace belfry::ops
