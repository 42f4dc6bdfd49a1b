#include "ops/losses/losses_ops.h"
#include "ops/module/gpu_kernels.h"

namespace belfry::ops {

void AddLossGpuKernels(KernelTable& table) {
  AddCrossEntropyGpuKernels(table);
  AddSigmoidCrossEntropyGpuKernels(table);
  AddL2LossGpuKernels(table);
}

}  // namespace belfry::ops
