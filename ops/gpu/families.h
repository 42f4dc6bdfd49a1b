// The list of GPU kernels, by file.
#pragma once

#include "framework/graph/op_def.h"

namespace belfry::ops {

void AddBoxCopyGpuKernels(OpRegistry& registry);              // ops/copy/box_copy.cu
void AddCastGpuKernels(OpRegistry& registry);                 // ops/copy/cast.cu
void AddConcatGpuKernels(OpRegistry& registry);               // ops/copy/concat.cu
void AddConstantGpuKernels(OpRegistry& registry);             // ops/copy/constant.cu
void AddGatherGpuKernels(OpRegistry& registry);               // ops/index/gather.cu
void AddGatherGradGpuKernels(OpRegistry& registry);           // ops/index/gather_grad.cu
void AddOneHotGpuKernels(OpRegistry& registry);               // ops/index/one_hot.cu
void AddSelectGpuKernels(OpRegistry& registry);               // ops/elementwise/select.cu
void AddTileGpuKernels(OpRegistry& registry);                 // ops/copy/tile.cu
void AddAddNGpuKernels(OpRegistry& registry);                 // ops/elementwise/add_n.cu
void AddArithmeticGpuKernels(OpRegistry& registry);           // ops/elementwise/arithmetic.cu
void AddAxisScanGpuKernels(OpRegistry& registry);             // ops/reduction/axis_scan.cu
void AddComparisonGpuKernels(OpRegistry& registry);           // ops/elementwise/comparison.cu
void AddExponentialGpuKernels(OpRegistry& registry);          // ops/elementwise/exponential.cu
void AddExtremeGpuKernels(OpRegistry& registry);              // ops/reduction/extremes.cu
void AddL2LossGpuKernels(OpRegistry& registry);               // ops/losses/l2_loss.cu
void AddPlainMatMulGpuKernels(OpRegistry& registry);          // ops/product/matmul.cu
void AddMatMulGpuKernels(OpRegistry& registry);               // ops/product/matmul_gpu.cc
void AddRoundingGpuKernels(OpRegistry& registry);             // ops/elementwise/rounding.cu
void AddSumGpuKernels(OpRegistry& registry);                  // ops/reduction/sums.cu
void AddTopKGpuKernels(OpRegistry& registry);                 // ops/reduction/top_k.cu
void AddTrigonometricGpuKernels(OpRegistry& registry);        // ops/elementwise/trigonometric.cu
void AddActivationGpuKernels(OpRegistry& registry);           // ops/activation/activations.cu
void AddBatchNormGpuKernels(OpRegistry& registry);            // ops/normalisation/batch_norm.cu
void AddBiasGpuKernels(OpRegistry& registry);                 // ops/activation/bias.cu
void AddCheckNumericsGpuKernels(OpRegistry& registry);        // ops/elementwise/check_numerics.cu
void AddConv2DGpuKernels(OpRegistry& registry);               // ops/convolution/conv2d_gpu.cc
void AddCrossEntropyGpuKernels(OpRegistry& registry);         // ops/losses/cross_entropy.cu
void AddDropoutGpuKernels(OpRegistry& registry);              // ops/activation/dropout.cu
void AddLayerNormGpuKernels(OpRegistry& registry);            // ops/normalisation/layer_norm.cu
void AddLrnGpuKernels(OpRegistry& registry);                  // ops/normalisation/lrn.cu
void AddMomentsGpuKernels(OpRegistry& registry);              // ops/normalisation/moments.cu
void AddPoolGpuKernels(OpRegistry& registry);                 // ops/pooling/pool.cu
void AddSigmoidCrossEntropyGpuKernels(OpRegistry& registry);  // ops/losses/sigmoid_cross_entropy.cu
void AddSmoothActivationGpuKernels(OpRegistry& registry);     // ops/activation/smooth_activations.cu
void AddSoftmaxGpuKernels(OpRegistry& registry);              // ops/activation/softmax.cu
void AddNormalGpuKernels(OpRegistry& registry);               // ops/random/normal.cu
void AddUniformGpuKernels(OpRegistry& registry);              // ops/random/uniform.cu
void AddStateGpuKernels(OpRegistry& registry);                // ops/state/variables.cu
void AddAdamGpuKernels(OpRegistry& registry);                 // ops/training/adam.cu
void AddAdaptiveGpuKernels(OpRegistry& registry);             // ops/training/adaptive.cu
void AddAverageGpuKernels(OpRegistry& registry);              // ops/training/average.cu
void AddClipGpuKernels(OpRegistry& registry);                 // ops/training/clip.cu
void AddDescentGpuKernels(OpRegistry& registry);              // ops/training/descent.cu
void AddLarsGpuKernels(OpRegistry& registry);                 // ops/training/lars.cu
void AddLossScaleGpuKernels(OpRegistry& registry);            // ops/training/loss_scale.cu
void AddScheduleGpuKernels(OpRegistry& registry);             // ops/training/schedule.cu

}  // namespace belfry::ops
