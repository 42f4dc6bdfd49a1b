#include "ops/module/gpu_kernels.h"
#include "ops/random/random_ops.h"

namespace belfry::ops {

void AddRandomGpuKernels(KernelTable& table) {
  AddNormalGpuKernels(table);
  AddUniformGpuKernels(table);
}

}  // namespace belfry::ops
