// What collectives do on GPUs by themselves. Defined by reduce.cu, or by no_reduce.cc, which can none of it.
#pragma once

#include "framework/collective/collective.h"

namespace belfry {

// InvalidArgument for a mean or sum of what is not a float.
absl::Status CheckDType(const CollectiveSpec& spec);

// The slices of GPUs: those of ReduceOnHost, bit by bit (but for which NaN a NaN is), with kernels that read and write
// the memory of all participants. If all weights of a mean are zero, its result is NaN. Holds memory on every
// participant, so it goes before they do. FailedPrecondition if a participant does not reach another's memory.
absl::StatusOr<CollectiveSlice> MakeGpuSlice(const CollectiveSpec& spec);

// data[i] = data[i] * *weight, and with `total` data[i] * (*weight / *total); zeros if *weight is 0, whatever data
// holds. Enqueued; all pointers are to memory of the stream's device. REQUIRES: IsFloating(dtype).
absl::Status ScaleByWeight(Stream& stream, DType dtype, int64_t elements, void* data, const float* weight,
                           const float* total);
// data[i] = data[i] / *total; NaN if *total is not above 0. Likewise.
absl::Status DivideByTotal(Stream& stream, DType dtype, int64_t elements, void* data, const float* total);

}  // namespace belfry
