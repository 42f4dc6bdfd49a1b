// Registration of the ops on variables, by source file. Internal.
#pragma once

#include "framework/graph/kernel_table.h"
#include "framework/graph/op_def.h"

namespace belfry::ops {

void RegisterStateOps(OpRegistry& registry);  // variables.cc

// In the CUDA module.
void AddStateGpuKernels(KernelTable& table);  // variables.cu

}  // namespace belfry::ops
