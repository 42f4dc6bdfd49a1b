#include "ops/module/gpu_kernels.h"
#include "ops/normalisation/normalisation_ops.h"

namespace belfry::ops {

void AddNormalisationGpuKernels(KernelTable& table) {
  AddBatchNormGpuKernels(table);
  AddLayerNormGpuKernels(table);
  AddRmsNormGpuKernels(table);
  AddGroupNormGpuKernels(table);
  AddLrnGpuKernels(table);
  AddMomentsGpuKernels(table);
}

}  // namespace belfry::ops
