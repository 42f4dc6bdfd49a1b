// The kernels of collectives on GPUs, defined by reduce.cu in the CUDA module. Others call them by CollectivesOnGpus().
#pragma once

#include "framework/collective/collective.h"

namespace belfry {

// One rank, as a kernel sees it, in the memory of its GPU: the rank's elements of the GPU's slice, and its weight.
// After the last rank's entry comes one more, whose factor is the divisor.
struct RankEntry {
  void* data;
  const float* weight;
  double factor;
};
// Enqueues *entry = {data, weight, 1}.
absl::Status WriteEntry(Stream& stream, RankEntry* entry, void* data, const float* weight);
// Replaces the `elements` elements of every rank by the result. Enqueued; all pointers are to memory that the stream's
// device reaches.
absl::Status ReduceEntries(Stream& stream, CollectiveKind kind, DType dtype, RankEntry* entries, int ranks,
                           int64_t elements);

// Enqueues data[i] = data[i] * *weight or, with `total`, data[i] * (*weight / *total); zeros if *weight is 0, whatever
// data holds. All pointers are to memory of the stream's device. REQUIRES: IsFloating(dtype).
absl::Status ScaleByWeight(Stream& stream, DType dtype, int64_t elements, void* data, const float* weight,
                           const float* total);
// data[i] = data[i] / *total; NaN if *total is not above 0. Enqueued; the same requirements.
absl::Status DivideByTotal(Stream& stream, DType dtype, int64_t elements, void* data, const float* total);

}  // namespace belfry
