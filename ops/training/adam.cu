#include "ops/training/training_ops.h"
#include "ops/training/update_gpu_impl.h"

namespace belfry::ops {

void AddAdamGpuKernels(KernelTable& table) {
  table.AddKernels("ApplyAdam", GpuUpdateKernels<CoupledAdamRule>());
  table.AddKernels("ApplyAdamW", GpuUpdateKernels<DecoupledAdamRule>());
}

}  // namespace belfry::ops
