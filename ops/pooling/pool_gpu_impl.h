// Pooling on GPUs: what a library does of it. Internal.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "framework/base/dtype.h"
#include "framework/device/device.h"
#include "ops/common/window.h"
#include "ops/gpu/library_core.h"

namespace belfry::ops {

// Of images [n, window.h.in, window.w.in, channels]. There is no maximum: cuDNN's gives -FLT_MAX for a window of -inf
// or NaN, as the code of version 9.19's engines has it.
struct GpuPool {
  enum class Kind { kAverage, kAverageGradient, kMaximumGradient };
  Kind kind = Kind::kAverage;
  DType dtype = DType::kFloat32, winners = DType::kUInt8;
  int64_t n = 0, channels = 0;
  Window window;
};

// Operands: x, y; of the gradients the winners, as the library counts them, if it is a maximum's, dy, dx. Unimplemented
// if the library has nothing for it.
absl::StatusOr<LibraryCore> MakeLibraryGpuPool(const GpuPool& pool, Device& device);

}  // namespace belfry::ops
