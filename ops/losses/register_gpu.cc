#include "ops/gpu/gpu_kernels.h"
#include "ops/losses/losses_ops.h"

namespace belfry::ops {

void AddLossGpuKernels(KernelTable& table) {
  AddCrossEntropyGpuKernels(table);
  AddSigmoidCrossEntropyGpuKernels(table);
  AddL2LossGpuKernels(table);
}

}  // namespace belfry::ops
