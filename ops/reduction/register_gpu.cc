#include "ops/module/gpu_kernels.h"
#include "ops/reduction/reduction_ops.h"

namespace belfry::ops {

void AddReductionGpuKernels(KernelTable& table) {
  AddExtremeGpuKernels(table);
  AddSumGpuKernels(table);
  AddAxisScanGpuKernels(table);
  AddTopKGpuKernels(table);
}

}  // namespace belfry::ops
