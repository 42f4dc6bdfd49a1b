#include "ops/builtin_ops.h"

#include "framework/base/module.h"
#include "framework/graph/kernel_table.h"
#include "ops/activation/activation_ops.h"
#include "ops/convolution/convolution_ops.h"
#include "ops/copy/copy_ops.h"
#include "ops/gpu/gpu_module.h"
#include "ops/normalisation/normalisation_ops.h"
#include "ops/pooling/pooling_ops.h"

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
  RegisterAttentionOps(registry);
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
  RegisterRecurrentOps(registry);
  RegisterReductionOps(registry);
  RegisterResizeOps(registry);
  RegisterStateOps(registry);
  RegisterSummaryOps(registry);
  RegisterTrainingOps(registry);
  // Each rewrite sees the results of those before it.
  registry.AddRewrite({"bias_activation", FuseBiasAndActivation});
  registry.AddRewrite({"pool_masks", MaskBeforePoolGradients});
  registry.AddRewrite({"norms", FuseNorms});
  registry.AddRewrite({"input_gradients", FuseInputGradients});
  registry.AddRewrite({"cancel_transposes", CancelTransposes, /*fuses=*/false});
  registry.SetLateKernels(std::make_shared<LateKernels>("GPU", LoadGpuKernels));
  return registry;
}

}  // namespace ops

const OpRegistry& BuiltinOps() {
  static const auto* const registry = new OpRegistry(ops::MakeBuiltinOps());
  return *registry;
}

}  // namespace belfry
