#include "ops/gpu/gpu_kernels.h"
#include "ops/index/index_ops.h"

namespace belfry::ops {

void AddIndexGpuKernels(KernelTable& table) {
  AddFlatIndicesGpuKernels(table);
  AddGatherGpuKernels(table);
  AddGatherGradGpuKernels(table);
  AddOneHotGpuKernels(table);
}

}  // namespace belfry::ops
