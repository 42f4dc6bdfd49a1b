#include "ops/training/training_ops.h"
#include "ops/training/update_gpu_impl.h"

namespace belfry::ops {

void AddAdaptiveGpuKernels(KernelTable& table) {
  table.AddKernels("ApplyRMSProp", GpuUpdateKernels<RMSPropRule>());
  table.AddKernels("ApplyAdagrad", GpuUpdateKernels<AdagradRule>());
}

}  // namespace belfry::ops
