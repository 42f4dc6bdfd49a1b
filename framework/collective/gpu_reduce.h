// What collectives do on GPUs by themselves. The kernels are defined by reduce.cu, or by no_reduce.cc, which can none
// of it.
#pragma once

#include "framework/collective/collective.h"

namespace belfry {

// InvalidArgument for a mean or sum of what is not a float.
absl::Status CheckDType(const CollectiveSpec& spec);

// The slices of GPUs: those of ReduceOnHost, bit by bit (but for which NaN a NaN is). Kernels read and write the memory
// of the participants that theirs reaches; of the others they work on copies, in scratch memory of their own device. If
// all weights of a mean are zero, its result is NaN. Holds memory on every participant, so it goes before they do.
absl::StatusOr<CollectiveSlice> MakeGpuSlice(const CollectiveSpec& spec);

// What a kernel knows of one rank, in the memory of its GPU: where the rank's elements of its slice are, and where the
// weight is. After the last rank's there is one more, whose factor is the divisor.
struct RankEntry {
  void* data;
  const float* weight;
  double factor;
};
// *entry = {data, weight, 1}. Enqueued.
absl::Status WriteEntry(Stream& stream, RankEntry* entry, void* data, const float* weight);
// The result for all ranks, whose `elements` elements are replaced by it. Enqueued; all pointers are to memory that the
// stream's device reaches.
absl::Status ReduceEntries(Stream& stream, CollectiveKind kind, DType dtype, RankEntry* entries, int ranks,
                           int64_t elements);

// data[i] = data[i] * *weight, and with `total` data[i] * (*weight / *total); zeros if *weight is 0, whatever data
// holds. Enqueued; all pointers are to memory of the stream's device. REQUIRES: IsFloating(dtype).
absl::Status ScaleByWeight(Stream& stream, DType dtype, int64_t elements, void* data, const float* weight,
                           const float* total);
// data[i] = data[i] / *total; NaN if *total is not above 0. Likewise.
absl::Status DivideByTotal(Stream& stream, DType dtype, int64_t elements, void* data, const float* total);

}  // namespace belfry
