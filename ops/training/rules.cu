#include "ops/training/training_ops.h"
#include "ops/training/update_gpu_impl.h"

namespace belfry::ops {

void AddUpdateRuleGpuKernels(KernelTable& table) {
  AddUpdateGpuKernels<GradientDescentRule>(table, "ApplyGradientDescent");
  AddUpdateGpuKernels<MomentumRule>(table, "ApplyMomentum");
  AddUpdateGpuKernels<RMSPropRule>(table, "ApplyRMSProp");
  AddUpdateGpuKernels<AdagradRule>(table, "ApplyAdagrad");
  AddUpdateGpuKernels<CoupledAdamRule>(table, "ApplyAdam");
  AddUpdateGpuKernels<DecoupledAdamRule>(table, "ApplyAdamW");
}

}  // namespace belfry::ops
