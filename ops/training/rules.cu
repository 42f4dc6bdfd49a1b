#include "ops/training/training_ops.h"
#include "ops/training/update_gpu_impl.h"

namespace belfry::ops {

void AddUpdateRuleGpuKernels(KernelTable& table) {
  AddSparseUpdateGpuKernels<GradientDescentRule>(table, "SparseApplyGradientDescent");
  AddSparseUpdateGpuKernels<MomentumRule>(table, "SparseApplyMomentum");
  AddSparseUpdateGpuKernels<RMSPropRule>(table, "SparseApplyRMSProp");
  AddSparseUpdateGpuKernels<AdagradRule>(table, "SparseApplyAdagrad");
  AddSparseUpdateGpuKernels<CoupledAdamRule>(table, "SparseApplyAdam");
  AddSparseUpdateGpuKernels<DecoupledAdamRule>(table, "SparseApplyAdamW");
}

}  // namespace belfry::ops
