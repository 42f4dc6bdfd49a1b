// Registration of the pooling ops, by source file. Internal.
#pragma once

#include "framework/graph/kernel_table.h"
#include "framework/graph/op_def.h"

namespace belfry::ops {

void RegisterPool(OpRegistry& registry);  // pool.cc

// In the CUDA module.
void AddPoolGpuKernels(KernelTable& table);  // pool.cu

}  // namespace belfry::ops
