#include "ops/training/training_ops.h"
#include "ops/training/update_gpu_impl.h"

namespace belfry::ops {

void AddAdaptiveGpuKernels(KernelTable& table) {
  AddUpdateGpuKernels<RMSPropRule>(table, "ApplyRMSProp");
  AddUpdateGpuKernels<AdagradRule>(table, "ApplyAdagrad");
}

}  // namespace belfry::ops
