#include "ops/builtin_ops.h"

#include "framework/base/module.h"
#include "framework/compiler/elementwise_codegen/generated_kernel.h"
#include "framework/graph/kernel_table.h"
#include "ops/activation/activation_ops.h"
#include "ops/attention/attention_ops.h"
#include "ops/collective/collective_ops.h"
#include "ops/convolution/convolution_ops.h"
#include "ops/copy/copy_ops.h"
#include "ops/element_code.h"
#include "ops/elementwise/elementwise_ops.h"
#include "ops/gpu/gpu_module.h"
#include "ops/image/image_ops.h"
#include "ops/index/index_ops.h"
#include "ops/losses/losses_ops.h"
#include "ops/normalisation/normalisation_ops.h"
#include "ops/pooling/pooling_ops.h"
#include "ops/product/product_ops.h"
#include "ops/random/random_ops.h"
#include "ops/recurrent/recurrent_ops.h"
#include "ops/reduction/reduction_ops.h"
#include "ops/resize/resize_ops.h"
#include "ops/state/state_ops.h"
#include "ops/summary/summary_ops.h"
#include "ops/training/training_ops.h"

namespace belfry {
namespace ops {
namespace {

// The ops of Belfry. Each function adds those of a source: definitions, shape rules, gradients and CPU kernels.
constexpr void (*kModelOps[])(OpRegistry& registry) = {
    // ops/activation
    RegisterActivations, RegisterBias, RegisterDropout, RegisterSmoothActivations, RegisterSoftmax,
    // ops/attention
    RegisterAttention, RegisterRotary,
    // ops/convolution
    RegisterConv2D, RegisterConv2DTranspose, RegisterFusedConv2D,
    // ops/copy
    RegisterBroadcastOps, RegisterCastOps, RegisterConcatOps, RegisterConstantOps, RegisterExtentsOps, RegisterPadOps,
    RegisterSliceOps, RegisterSplitOps, RegisterTileOps, RegisterTransposeOps, RegisterViewOps,
    // ops/elementwise
    RegisterAddN, RegisterArithmetic, RegisterCheckNumerics, RegisterComparisons, RegisterExponentials,
    RegisterRounding, RegisterSelectOps, RegisterTrigonometric,
    // ops/image
    RegisterImageOps,
    // ops/index
    RegisterFlatIndicesOps, RegisterGatherOps, RegisterOneHotOps, RegisterScatterOps,
    // ops/normalisation
    RegisterBatchNorm, RegisterFilterNorm, RegisterGroupNorm, RegisterLayerNorm, RegisterLrn, RegisterRmsNorm,
    // ops/pooling
    RegisterPool,
    // ops/product
    RegisterFusedMatMul, RegisterMatMul,
    // ops/random
    RegisterNormalOps, RegisterUniformOps,
    // ops/recurrent
    RegisterGru, RegisterLstm, RegisterSequenceOps,
    // ops/reduction
    RegisterAxisScans, RegisterExtremes, RegisterSums, RegisterTopK,
    // ops/resize
    RegisterResizeOps};
// Ops that occur in training and evaluation only, and ops that rewrites make for GPUs. The gradients that have much
// code are among them, so that it does not become part of libbelfry_inference.
constexpr void (*kTrainingOps[])(OpRegistry& registry) = {
    // ops/attention
    RegisterAttentionGradients,
    // ops/collective
    RegisterCollectiveOps,
    // ops/convolution
    RegisterConv2DGradients, RegisterFusedConv2DGradients,
    // ops/losses
    RegisterCrossEntropy, RegisterL2Loss, RegisterSigmoidCrossEntropy,
    // ops/normalisation
    RegisterBatchNormGradients, RegisterGroupNormGradients, RegisterLayerNormGradients, RegisterLrnGradients,
    RegisterMoments, RegisterResidualNorms, RegisterRmsNormGradients,
    // ops/pooling
    RegisterPoolGradients,
    // ops/product
    RegisterMatMulEnds,
    // ops/recurrent
    RegisterGruGradients, RegisterLstmGradients,
    // ops/state
    RegisterStateOps,
    // ops/summary
    RegisterSummaryOps,
    // ops/training
    RegisterAdamOps, RegisterAdaptiveOps, RegisterAverageOps, RegisterClipOps, RegisterDescentOps, RegisterL2Losses,
    RegisterLarsOps, RegisterIncrementOps, RegisterLossScaleOps, RegisterScheduleOps, RegisterSumRowsOps,
    RegisterDenseRowsOps, RegisterSeriesOps};

// The module's kernels, and generated ones of the element-wise ops that it has none of. None where there is no module:
// then there are no GPUs either. Those that are only described (device/described_gpu.h) need kernels and no driver,
// which CudaModule would ask for.
KernelTable LoadGpuKernels() {
  KernelTable table;
  const absl::StatusOr<Module> module = Module::Load("cuda");
  const auto* const kernels = module.ok() ? module->Find<GpuKernels>("ops") : nullptr;
  if (kernels == nullptr) return table;
  const OpRegistry& registry = BuiltinOps();
  for (const auto& [name, op] : registry.ops()) {
    if (op.element_code == nullptr) continue;
    table.AddKernels(name, GeneratedKernels(op, "GPU", registry.element_declarations()));
  }
  kernels->add(table);
  return table;
}

}  // namespace

OpRegistry MakeBuiltinOps() {
  OpRegistry registry;
  for (const auto add : kModelOps) add(registry);
  for (const auto add : kTrainingOps) add(registry);
  AddElementCode(registry);
  // Each rewrite sees the results of those before it.
  registry.AddRewrite({"filter_norms", FoldNormsIntoFilters});
  registry.AddRewrite({"bias_activation", FuseBiasAndActivation});
  registry.AddRewrite({"product_gelu", FuseProductGelu});
  registry.AddRewrite({"pool_masks", MaskBeforePoolGradients});
  registry.AddRewrite({"pool_biases", SumBiasesBeforePoolGradients});
  registry.AddRewrite({"norms", FuseNorms});
  registry.AddRewrite({"lrn_masks", MaskLrnGradients});
  registry.AddRewrite({"residual_norms", FuseResidualNorms});
  registry.AddRewrite({"input_gradients", FuseInputGradients});
  registry.AddRewrite({"cancel_transposes", CancelTransposes, /*fuses=*/false});
  registry.AddRewrite({"loss_gradients", FuseLossGradients});
  registry.AddRewrite({"l2_losses", JoinL2Losses});
  registry.AddRewrite({"narrow_norms", NarrowNorms});
  registry.AddRewrite({"filter_layouts", TurnFilters});
  registry.SetLateKernels(std::make_shared<LazyKernelTable>("GPU", LoadGpuKernels));
  return registry;
}

OpRegistry MakeInferenceOps() {
  OpRegistry registry;
  for (const auto add : kModelOps) add(registry);
  registry.AddRewrite({"filter_norms", FoldNormsIntoFilters});
  registry.AddRewrite({"bias_activation", FuseBiasAndActivation});
  registry.AddRewrite({"norms", FuseNorms});
  registry.AddRewrite({"cancel_transposes", CancelTransposes, /*fuses=*/false});
  return registry;
}

}  // namespace ops

const OpRegistry& BuiltinOps() {
  static const auto* const registry = new OpRegistry(ops::MakeBuiltinOps());
  return *registry;
}

}  // namespace belfry
