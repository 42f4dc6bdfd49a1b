#include "framework/collective/cuda/collectives.h"

#include "framework/device/cuda/native.h"

namespace belfry {

const GpuCollectives kCudaCollectives = {
    .write_entry = &WriteEntry,
    .reduce_entries = &ReduceEntries,
    .scale_by_weight = &ScaleByWeight,
    .divide_by_total = &DivideByTotal,
    .reaches = &CanReach,
    .open_nccl = &OpenNcclLibrary,
};

}  // namespace belfry
