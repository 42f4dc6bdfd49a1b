// Collectives on GPUs: what this layer needs of the CUDA module (framework/base/module.h).
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "framework/collective/collective.h"
#include "framework/collective/gpu_reduce.h"
#include "framework/collective/nccl_api.h"

namespace belfry {

// The module's table for this layer, part "collective".
struct GpuCollectives {
  decltype(&WriteEntry) write_entry;
  decltype(&ReduceEntries) reduce_entries;
  decltype(&ScaleByWeight) scale_by_weight;
  decltype(&DivideByTotal) divide_by_total;
  // True if kernels of GPU `from` read and write memory of GPU `to`. REQUIRES: both are GPUs of one back-end.
  bool (*reaches)(const Device& from, const Device& to);
  absl::StatusOr<std::shared_ptr<NcclApi>> (*open_nccl)();
};

// The table, loaded at the first call; without a module one whose functions return Unimplemented and reach nothing.
// Thread-safe.
const GpuCollectives& CollectivesOnGpus();

// InvalidArgument for a mean or sum of a dtype that is not floating-point.
absl::Status CheckDType(const CollectiveSpec& spec);

// The slices of GPUs, with the bits of ReduceOnHost, except that a NaN may be another NaN. Kernels read and write
// the memory of the participants that theirs reaches; of the others they work on copies, in scratch memory of their own
// device. If all weights of a mean are zero, its result is NaN. The slice holds memory on every participant, so it must
// go before they do.
absl::StatusOr<CollectiveSlice> MakeGpuSlice(const CollectiveSpec& spec);

}  // namespace belfry
