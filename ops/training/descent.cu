#include "ops/gpu/families.h"
#include "ops/training/update_gpu_impl.h"

namespace belfry::ops {

void AddDescentGpuKernels(OpRegistry& registry) {
  registry.AddKernels("ApplyGradientDescent", GpuUpdateKernels<GradientDescentRule>());
  registry.AddKernels("ApplyMomentum", GpuUpdateKernels<MomentumRule>());
}

}  // namespace belfry::ops
