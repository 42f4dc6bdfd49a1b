// Batch normalisation on GPUs by a library. Internal.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "framework/base/dtype.h"
#include "framework/device/device.h"
#include "ops/gpu/library_core.h"

namespace belfry::ops {

// Batch normalisation of x [n, pixels, channels] with its own statistics. Vectors over the channels are float32.
struct GpuBatchNorm {
  bool gradient = false;
  DType dtype = DType::kFloat32;
  int64_t n = 0, pixels = 0, channels = 0;
  bool add = false, relu = false;  // applied to the result; forward only
  float epsilon = 0;
};

// Operands: x, scale, offset, [addend,] y, mean, inverse; for the gradient x, dy, scale, mean, inverse, dx, dscale,
// doffset. `inverse` is 1 / sqrt(variance + epsilon). Operands must not overlap. Unimplemented if the library does not
// support it.
absl::StatusOr<LibraryCore> MakeLibraryGpuBatchNorm(const GpuBatchNorm& norm, Device& device);

}  // namespace belfry::ops
