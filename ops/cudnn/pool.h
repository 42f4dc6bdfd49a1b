// Pooling on GPUs by a library. Internal.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "framework/base/dtype.h"
#include "framework/device/device.h"
#include "ops/common/window.h"
#include "ops/gpu/library_core.h"

namespace belfry::ops {

// Pooling of images [n, window.h.in, window.w.in, channels]. The maximum is missing because cuDNN gives -FLT_MAX for a
// window of -inf or NaN (engines of version 9.19).
struct GpuPool {
  enum class Kind { kAverage, kAverageGradient, kMaximumGradient };
  Kind kind = Kind::kAverage;
  DType dtype = DType::kFloat32, winners = DType::kUInt8;
  int64_t n = 0, channels = 0;
  Window window;
};

// Operands: x, y; for the gradients [winners,] dy, dx, where the winners of a maximum are numbered as the library does.
// Unimplemented if the library does not support it.
absl::StatusOr<LibraryCore> MakeLibraryGpuPool(const GpuPool& pool, Device& device);

}  // namespace belfry::ops
