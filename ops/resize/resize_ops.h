// Registration of the resizing ops, by source file. Internal.
#pragma once

#include "framework/graph/kernel_table.h"
#include "framework/graph/op_def.h"

namespace belfry::ops {

void RegisterResizeOps(OpRegistry& registry);  // resize.cc

// In the CUDA module.
void AddResizeGpuKernels(KernelTable& table);  // resize.cu

}  // namespace belfry::ops
