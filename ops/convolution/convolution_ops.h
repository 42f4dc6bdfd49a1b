// Registration of the convolution ops, by source file. Internal.
#pragma once

#include "framework/graph/kernel_table.h"
#include "framework/graph/op_def.h"

namespace belfry::ops {

void RegisterConv2D(OpRegistry& registry);  // conv2d.cc
void RegisterFused(OpRegistry& registry);   // fused.cc

// In the CUDA module.
void AddConv2DGpuKernels(KernelTable& table);  // conv2d_gpu.cc

}  // namespace belfry::ops
