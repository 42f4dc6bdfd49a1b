// Registration of the random ops. Internal to ops/random/.
#pragma once

#include "framework/graph/kernel_table.h"
#include "framework/graph/op_def.h"

namespace belfry::ops {

void RegisterUniformOps(OpRegistry& registry);
void RegisterNormalOps(OpRegistry& registry);

// In the CUDA module.
void AddNormalGpuKernels(KernelTable& table);   // normal.cu
void AddUniformGpuKernels(KernelTable& table);  // uniform.cu

}  // namespace belfry::ops
