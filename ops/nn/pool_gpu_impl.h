// Pooling on GPUs: what a library does of it. Internal.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "framework/base/dtype.h"
#include "framework/device/device.h"
#include "ops/gpu/library_core.h"
#include "ops/nn/window.h"

namespace belfry::ops {

// Of images [n, window.h.in, window.w.in, channels].
struct GpuPool {
  bool max = false, gradient = false;
  DType dtype = DType::kFloat32, winners = DType::kUInt8;
  int64_t n = 0, channels = 0;
  Window window;
};

// Operands: x, y and, of a maximum, winners, as the library counts them; of the gradient the winners of a maximum, dy,
// dx. Unimplemented if the library has nothing for it.
absl::StatusOr<LibraryCore> MakeLibraryGpuPool(const GpuPool& pool, Device& device);

}  // namespace belfry::ops
