// Reductions that collectives run on GPUs themselves. The kernels are defined in reduce.cu, or in no_reduce.cc for a
// build without CUDA, where each of them is an Unimplemented error.
#pragma once

#include "framework/collective/collective.h"

namespace belfry {

// InvalidArgument for a mean or sum of a type that is not floating-point.
absl::Status CheckDType(const CollectiveSpec& spec);

// The slice function for GPUs, with the bits of ReduceOnHost (except for which NaN a NaN is). A kernel accesses the
// memory of participants that its device can reach directly; for the others it works on copies in its own device's
// scratch memory. If all weights of a mean are zero, the result is NaN. Holds memory on every participant, so it must
// be destroyed before they are.
absl::StatusOr<CollectiveSlice> MakeGpuSlice(const CollectiveSpec& spec);

// One rank as a kernel sees it, in the kernel's own device memory: the addresses of the rank's elements of the slice
// and of its weight. The table has one more entry after the last rank's, whose factor is the divisor.
struct RankEntry {
  void* data;
  const float* weight;
  double factor;
};
// Enqueues *entry = {data, weight, 1}.
absl::Status WriteEntry(Stream& stream, RankEntry* entry, void* data, const float* weight);
// Enqueues the reduction: the `elements` elements of every rank are replaced by the result. All pointers are to memory
// that the stream's device can access.
absl::Status ReduceEntries(Stream& stream, CollectiveKind kind, DType dtype, RankEntry* entries, int ranks,
                           int64_t elements);

// Enqueues data[i] = data[i] * *weight or, with `total`, data[i] * (*weight / *total); zeros if *weight is 0, whatever
// data holds. All pointers are to memory of the stream's device. REQUIRES: IsFloating(dtype).
absl::Status ScaleByWeight(Stream& stream, DType dtype, int64_t elements, void* data, const float* weight,
                           const float* total);
// Enqueues data[i] = data[i] / *total; NaN if *total is not positive. Same requirements.
absl::Status DivideByTotal(Stream& stream, DType dtype, int64_t elements, void* data, const float* total);

}  // namespace belfry
