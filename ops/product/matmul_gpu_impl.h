// MatMul on GPUs. Internal.
#pragma once

#include "absl/status/statusor.h"
#include "framework/graph/kernel.h"

namespace belfry::ops {

// Op MatMul for float, double, Half and BFloat16: by cuBLASLt, or plain where that has no algorithm. `Result`: T, or
// float for 16-bit inputs, whose sums are then not rounded to 16 bits.
template <class T, class Result = T>
absl::StatusOr<Kernel> MakeGpuMatMul(const KernelSpec& spec);

// Op MatMul for every shape, for float, double, Half, BFloat16, int32_t and int64_t, but slow. Integers wrap around;
// 16-bit floats are summed in float and double in double, in the order of the inner extent.
template <class T, class Result = T>
absl::StatusOr<Kernel> MakePlainGpuMatMul(const KernelSpec& spec);

}  // namespace belfry::ops
