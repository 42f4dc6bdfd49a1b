// Registration of the index ops, by source file. Internal.
#pragma once

#include "framework/graph/kernel_table.h"
#include "framework/graph/op_def.h"

namespace belfry::ops {

void RegisterGatherOps(OpRegistry& registry);  // gather.cc: Gather, GatherGrad
void RegisterOneHotOps(OpRegistry& registry);  // one_hot.cc

// In the CUDA module.
void AddGatherGpuKernels(KernelTable& table);      // gather.cu
void AddGatherGradGpuKernels(KernelTable& table);  // gather_grad.cu
void AddOneHotGpuKernels(KernelTable& table);      // one_hot.cu

}  // namespace belfry::ops
