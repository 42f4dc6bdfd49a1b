#include "ops/training/training_ops.h"
#include "ops/training/update_gpu_impl.h"

namespace belfry::ops {

void AddAdamGpuKernels(KernelTable& table) {
  AddUpdateGpuKernels<CoupledAdamRule>(table, "ApplyAdam");
  AddUpdateGpuKernels<DecoupledAdamRule>(table, "ApplyAdamW");
}

}  // namespace belfry::ops
