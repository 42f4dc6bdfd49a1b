#include "ops/builtin_ops.h"
#include "ops/gpu/families.h"

namespace belfry::ops {

void AddGpuKernels(OpRegistry& registry) {
  AddBoxCopyGpuKernels(registry);
  AddCastGpuKernels(registry);
  AddConcatGpuKernels(registry);
  AddConstantGpuKernels(registry);
  AddGatherGpuKernels(registry);
  AddGatherGradGpuKernels(registry);
  AddOneHotGpuKernels(registry);
  AddSelectGpuKernels(registry);
  AddTileGpuKernels(registry);
  AddArithmeticGpuKernels(registry);
  AddConv2DGpuKernels(registry);
  AddActivationGpuKernels(registry);
  AddBatchNormGpuKernels(registry);
  AddBiasGpuKernels(registry);
  AddCheckNumericsGpuKernels(registry);
  AddCrossEntropyGpuKernels(registry);
  AddLayerNormGpuKernels(registry);
  AddLrnGpuKernels(registry);
  AddMomentsGpuKernels(registry);
  AddPoolGpuKernels(registry);
  AddSigmoidCrossEntropyGpuKernels(registry);
  AddSmoothActivationGpuKernels(registry);
  AddSoftmaxGpuKernels(registry);
  AddComparisonGpuKernels(registry);
  AddExponentialGpuKernels(registry);
  AddExtremeGpuKernels(registry);
  AddL2LossGpuKernels(registry);
  AddRoundingGpuKernels(registry);
  AddSumGpuKernels(registry);
  AddTrigonometricGpuKernels(registry);
  AddAddNGpuKernels(registry);
  AddAxisScanGpuKernels(registry);
  AddMatMulGpuKernels(registry);
  AddPlainMatMulGpuKernels(registry);
  AddTopKGpuKernels(registry);
  AddStateGpuKernels(registry);
  AddAdamGpuKernels(registry);
  AddAdaptiveGpuKernels(registry);
  AddAverageGpuKernels(registry);
  AddClipGpuKernels(registry);
  AddDescentGpuKernels(registry);
  AddLarsGpuKernels(registry);
  AddLossScaleGpuKernels(registry);
  AddScheduleGpuKernels(registry);
  AddDropoutGpuKernels(registry);
  AddNormalGpuKernels(registry);
  AddUniformGpuKernels(registry);
}

}  // namespace belfry::ops
