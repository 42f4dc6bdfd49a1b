#include "ops/index/index_ops.h"
#include "ops/module/gpu_kernels.h"

namespace belfry::ops {

void AddIndexGpuKernels(KernelTable& table) {
  AddFlatIndicesGpuKernels(table);
  AddGatherGpuKernels(table);
  AddGatherGradGpuKernels(table);
  AddOneHotGpuKernels(table);
}

}  // namespace belfry::ops
