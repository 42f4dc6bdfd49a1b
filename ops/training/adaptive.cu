#include "ops/gpu/families.h"
#include "ops/training/update_gpu_impl.h"

namespace belfry::ops {

void AddAdaptiveGpuKernels(OpRegistry& registry) {
  registry.AddKernels("ApplyRMSProp", GpuUpdateKernels<RMSPropRule>());
  registry.AddKernels("ApplyAdagrad", GpuUpdateKernels<AdagradRule>());
}

}  // namespace belfry::ops
