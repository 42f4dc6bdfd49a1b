// Registration of the index ops, by source file. Internal.
#pragma once

#include "framework/graph/kernel_table.h"
#include "framework/graph/op_def.h"

namespace belfry::ops {

void RegisterFlatIndicesOps(OpRegistry& registry);  // flat_indices.cc
void RegisterGatherOps(OpRegistry& registry);       // gather.cc
void RegisterOneHotOps(OpRegistry& registry);       // one_hot.cc
void RegisterScatterOps(OpRegistry& registry);      // scatter.cc: GatherGrad, ScatterRows

// In the CUDA module.
void AddFlatIndicesGpuKernels(KernelTable& table);  // flat_indices.cu
void AddGatherGpuKernels(KernelTable& table);       // gather.cu
void AddGatherGradGpuKernels(KernelTable& table);   // gather_grad.cu: GatherGrad, ScatterRows
void AddOneHotGpuKernels(KernelTable& table);       // one_hot.cu

}  // namespace belfry::ops
