#include "ops/module/gpu_kernels.h"

namespace belfry::ops {

void AddGpuKernels(KernelTable& table) {
  AddActivationGpuKernels(table);
  AddAttentionGpuKernels(table);
  AddConvolutionGpuKernels(table);
  AddCopyGpuKernels(table);
  AddElementwiseGpuKernels(table);
  AddIndexGpuKernels(table);
  AddLossGpuKernels(table);
  AddNormalisationGpuKernels(table);
  AddPoolingGpuKernels(table);
  AddProductGpuKernels(table);
  AddRandomGpuKernels(table);
  AddRecurrentGpuKernels(table);
  AddReductionGpuKernels(table);
  AddResizeGpuKernels(table);
  AddStateGpuKernels(table);
  AddTrainingGpuKernels(table);
}

}  // namespace belfry::ops
