// Registration of the attention ops, by source file. Internal.
#pragma once

#include "framework/graph/kernel_table.h"
#include "framework/graph/op_def.h"

namespace belfry::ops {

void RegisterAttention(OpRegistry& registry);           // attention.cc
void RegisterAttentionGradients(OpRegistry& registry);  // attention.cc
void RegisterRotary(OpRegistry& registry);              // rotary.cc

// In the CUDA module.
void AddAttentionForwardGpuKernels(KernelTable& table);  // attention.cu
void AddAttentionGradGpuKernels(KernelTable& table);     // attention_grad.cu
void AddRotaryGpuKernels(KernelTable& table);            // rotary.cu

}  // namespace belfry::ops
