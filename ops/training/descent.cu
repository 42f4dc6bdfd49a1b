#include "ops/training/training_ops.h"
#include "ops/training/update_gpu_impl.h"

namespace belfry::ops {

void AddDescentGpuKernels(KernelTable& table) {
  AddUpdateGpuKernels<GradientDescentRule>(table, "ApplyGradientDescent");
  AddUpdateGpuKernels<MomentumRule>(table, "ApplyMomentum");
}

}  // namespace belfry::ops
