// The kernels for GPUs: what the CUDA module brings.
#pragma once

#include "framework/graph/kernel_table.h"

namespace belfry::ops {

void AddGpuKernels(KernelTable& table);

}  // namespace belfry::ops
