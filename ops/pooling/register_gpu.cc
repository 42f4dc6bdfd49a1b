#include "ops/module/gpu_kernels.h"
#include "ops/pooling/pooling_ops.h"

namespace belfry::ops {

void AddPoolingGpuKernels(KernelTable& table) { AddPoolGpuKernels(table); }

}  // namespace belfry::ops
