// Registration of the normalisation ops, by source file. Internal.
#pragma once

#include "framework/graph/kernel_table.h"
#include "framework/graph/op_def.h"

namespace belfry::ops {

void RegisterLrn(OpRegistry& registry);        // lrn.cc
void RegisterMoments(OpRegistry& registry);    // moments.cc
void RegisterBatchNorm(OpRegistry& registry);  // batch_norm.cc
void RegisterLayerNorm(OpRegistry& registry);  // layer_norm.cc

// In the CUDA module.
void AddBatchNormGpuKernels(KernelTable& table);  // batch_norm.cu
void AddLayerNormGpuKernels(KernelTable& table);  // layer_norm.cu
void AddLrnGpuKernels(KernelTable& table);        // lrn.cu
void AddMomentsGpuKernels(KernelTable& table);    // moments.cu

}  // namespace belfry::ops
