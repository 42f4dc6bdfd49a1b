#include "ops/gpu/families.h"
#include "ops/training/update_gpu_impl.h"

namespace belfry::ops {

void AddAdamGpuKernels(OpRegistry& registry) {
  registry.AddKernels("ApplyAdam", GpuUpdateKernels<CoupledAdamRule>());
  registry.AddKernels("ApplyAdamW", GpuUpdateKernels<DecoupledAdamRule>());
}

}  // namespace belfry::ops
