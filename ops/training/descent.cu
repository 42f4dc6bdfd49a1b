#include "ops/training/training_ops.h"
#include "ops/training/update_gpu_impl.h"

namespace belfry::ops {

void AddDescentGpuKernels(KernelTable& table) {
  table.AddKernels("ApplyGradientDescent", GpuUpdateKernels<GradientDescentRule>());
  table.AddKernels("ApplyMomentum", GpuUpdateKernels<MomentumRule>());
}

}  // namespace belfry::ops
