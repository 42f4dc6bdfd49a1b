#include "ops/module/gpu_kernels.h"

#include "ops/activation/activation_ops.h"
#include "ops/attention/attention_ops.h"
#include "ops/convolution/convolution_ops.h"
#include "ops/copy/copy_ops.h"
#include "ops/elementwise/elementwise_ops.h"
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
#include "ops/training/training_ops.h"

namespace belfry::ops {
namespace {

// All kernels for GPUs. Each function adds those of a source.
constexpr void (*kKernels[])(KernelTable& table) = {
    // ops/activation
    AddBiasGpuKernels, AddDropoutGpuKernels, AddSoftmaxGpuKernels,
    // ops/attention
    AddAttentionForwardGpuKernels, AddAttentionGradGpuKernels, AddRotaryGpuKernels,
    // ops/convolution
    AddConv2DGpuKernels,
    // ops/copy
    AddBoxCopyGpuKernels, AddConcatGpuKernels, AddConstantGpuKernels, AddShapeGpuKernels, AddTileGpuKernels,
    // ops/elementwise
    AddAddNGpuKernels, AddCheckNumericsGpuKernels,
    // ops/image
    AddImageGpuKernels,
    // ops/index
    AddFlatIndicesGpuKernels, AddGatherGpuKernels, AddGatherGradGpuKernels, AddOneHotGpuKernels,
    // ops/losses
    AddCrossEntropyGpuKernels, AddL2LossGpuKernels,
    // ops/normalisation
    AddBatchNormGpuKernels, AddRowNormGpuKernels, AddLrnGpuKernels, AddMomentsGpuKernels,
    // ops/pooling
    AddPoolGpuKernels,
    // ops/product
    AddMatMulGpuKernels, AddPlainMatMulGpuKernels,
    // ops/random
    AddNormalGpuKernels, AddUniformGpuKernels,
    // ops/recurrent
    AddGruGpuKernels, AddLstmGpuKernels, AddSequenceGpuKernels,
    // ops/reduction
    AddAxisScanGpuKernels, AddExtremeGpuKernels, AddSumGpuKernels, AddTopKGpuKernels,
    // ops/resize
    AddResizeGpuKernels,
    // ops/state
    AddStateGpuKernels,
    // ops/training
    AddClipGpuKernels, AddDenseRowsGpuKernels, AddUpdateRuleGpuKernels, AddIncrementGpuKernels, AddL2LossesGpuKernels,
    AddLarsGpuKernels, AddLossScaleGpuKernels, AddScheduleGpuKernels, AddSeriesGpuKernels, AddSumRowsGpuKernels};

}  // namespace

void AddGpuKernels(KernelTable& table) {
  for (const auto add : kKernels) add(table);
}

}  // namespace belfry::ops
