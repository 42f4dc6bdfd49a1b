#include "ops/builtin_ops.h"

#include "framework/base/module.h"
#include "framework/graph/kernel_table.h"
#include "ops/gpu/gpu_module.h"

namespace belfry {
namespace ops {
namespace {

// None where there is no module: then there are no GPUs either.
KernelTable LoadGpuKernels() {
  KernelTable table;
  const absl::StatusOr<Module>& module = CudaModule();
  const auto* const kernels = module.ok() ? module->Find<GpuKernels>("ops") : nullptr;
  if (kernels != nullptr) kernels->add(table);
  return table;
}

}  // namespace

OpRegistry MakeBuiltinOps() {
  OpRegistry registry;
  RegisterActivationOps(registry);
  RegisterCollectiveOps(registry);
  RegisterConvolutionOps(registry);
  RegisterCopyOps(registry);
  RegisterElementwiseOps(registry);
  RegisterIndexOps(registry);
  RegisterLossOps(registry);
  RegisterNormalisationOps(registry);
  RegisterPoolingOps(registry);
  RegisterProductOps(registry);
  RegisterRandomOps(registry);
  RegisterReductionOps(registry);
  RegisterStateOps(registry);
  RegisterSummaryOps(registry);
  RegisterTrainingOps(registry);
  registry.SetLateKernels(std::make_shared<LateKernels>("GPU", LoadGpuKernels));
  return registry;
}

}  // namespace ops

const OpRegistry& BuiltinOps() {
  static const auto* const registry = new OpRegistry(ops::MakeBuiltinOps());
  return *registry;
}

}  // namespace belfry
