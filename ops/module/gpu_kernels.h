// The kernels for GPUs, by family: what the CUDA module brings. Each function adds those of one family and is
// defined in the family's folder, in register_gpu.cc where it has several sources.
#pragma once

#include "framework/graph/kernel_table.h"

namespace belfry::ops {

void AddActivationGpuKernels(KernelTable& table);
void AddAttentionGpuKernels(KernelTable& table);
void AddConvolutionGpuKernels(KernelTable& table);
void AddCopyGpuKernels(KernelTable& table);
void AddElementwiseGpuKernels(KernelTable& table);
void AddIndexGpuKernels(KernelTable& table);
void AddLossGpuKernels(KernelTable& table);
void AddNormalisationGpuKernels(KernelTable& table);
void AddPoolingGpuKernels(KernelTable& table);
void AddProductGpuKernels(KernelTable& table);
void AddRandomGpuKernels(KernelTable& table);
void AddRecurrentGpuKernels(KernelTable& table);
void AddReductionGpuKernels(KernelTable& table);
void AddResizeGpuKernels(KernelTable& table);
void AddStateGpuKernels(KernelTable& table);
void AddTrainingGpuKernels(KernelTable& table);

// All of them.
void AddGpuKernels(KernelTable& table);

}  // namespace belfry::ops
