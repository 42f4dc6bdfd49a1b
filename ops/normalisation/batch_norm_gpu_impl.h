// Batch norm on GPUs: what a library does of it. Internal.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "framework/base/dtype.h"
#include "framework/device/device.h"
#include "ops/gpu/library_core.h"

namespace belfry::ops {

// Of x [n, pixels, channels] with the statistics of x itself. What the channels share is float32.
struct GpuBatchNorm {
  bool gradient = false;
  DType dtype = DType::kFloat32;
  int64_t n = 0, pixels = 0, channels = 0;
  bool add = false, relu = false;  // to and of the result; not of the gradient
  float epsilon = 0;
};

// Operands: x, scale, offset, the addend if one is added, y, mean, inverse; of the gradient x, dy, scale, mean,
// inverse, dx, dscale, doffset. `inverse` is 1 / sqrt(variance + epsilon). No operand lies on another. Unimplemented if
// the library has nothing for it.
absl::StatusOr<LibraryCore> MakeLibraryGpuBatchNorm(const GpuBatchNorm& norm, Device& device);

}  // namespace belfry::ops
