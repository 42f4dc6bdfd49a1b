#include "ops/activation/activation_ops.h"
#include "ops/module/gpu_kernels.h"

namespace belfry::ops {

void AddActivationGpuKernels(KernelTable& table) {
  AddActivationsGpuKernels(table);
  AddBiasGpuKernels(table);
  AddSmoothActivationGpuKernels(table);
  AddSoftmaxGpuKernels(table);
  AddDropoutGpuKernels(table);
}

}  // namespace belfry::ops
