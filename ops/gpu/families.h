// The list of GPU kernels, by file.
#pragma once

#include "framework/graph/op_def.h"

namespace belfry::ops {

void AddBoxCopyGpuKernels(OpRegistry& registry);              // ops/array/box_copy.cu
void AddCastGpuKernels(OpRegistry& registry);                 // ops/array/cast.cu
void AddConcatGpuKernels(OpRegistry& registry);               // ops/array/concat.cu
void AddConstantGpuKernels(OpRegistry& registry);             // ops/array/constant.cu
void AddGatherGpuKernels(OpRegistry& registry);               // ops/array/gather.cu
void AddGatherGradGpuKernels(OpRegistry& registry);           // ops/array/gather_grad.cu
void AddOneHotGpuKernels(OpRegistry& registry);               // ops/array/one_hot.cu
void AddSelectGpuKernels(OpRegistry& registry);               // ops/array/select.cu
void AddTileGpuKernels(OpRegistry& registry);                 // ops/array/tile.cu
void AddAddNGpuKernels(OpRegistry& registry);                 // ops/math/add_n.cu
void AddArithmeticGpuKernels(OpRegistry& registry);           // ops/math/arithmetic.cu
void AddAxisScanGpuKernels(OpRegistry& registry);             // ops/math/axis_scan.cu
void AddComparisonGpuKernels(OpRegistry& registry);           // ops/math/comparison.cu
void AddExponentialGpuKernels(OpRegistry& registry);          // ops/math/exponential.cu
void AddExtremeGpuKernels(OpRegistry& registry);              // ops/math/extremes.cu
void AddL2LossGpuKernels(OpRegistry& registry);               // ops/math/l2_loss.cu
void AddPlainMatMulGpuKernels(OpRegistry& registry);          // ops/math/matmul.cu
void AddMatMulGpuKernels(OpRegistry& registry);               // ops/math/matmul_gpu.cc
void AddRoundingGpuKernels(OpRegistry& registry);             // ops/math/rounding.cu
void AddSumGpuKernels(OpRegistry& registry);                  // ops/math/sums.cu
void AddTopKGpuKernels(OpRegistry& registry);                 // ops/math/top_k.cu
void AddTrigonometricGpuKernels(OpRegistry& registry);        // ops/math/trigonometric.cu
void AddActivationGpuKernels(OpRegistry& registry);           // ops/nn/activations.cu
void AddBatchNormGpuKernels(OpRegistry& registry);            // ops/nn/batch_norm.cu
void AddBiasGpuKernels(OpRegistry& registry);                 // ops/nn/bias.cu
void AddCheckNumericsGpuKernels(OpRegistry& registry);        // ops/nn/check_numerics.cu
void AddConv2DGpuKernels(OpRegistry& registry);               // ops/nn/conv2d_gpu.cc
void AddCrossEntropyGpuKernels(OpRegistry& registry);         // ops/nn/cross_entropy.cu
void AddDropoutGpuKernels(OpRegistry& registry);              // ops/nn/dropout.cu
void AddLayerNormGpuKernels(OpRegistry& registry);            // ops/nn/layer_norm.cu
void AddLrnGpuKernels(OpRegistry& registry);                  // ops/nn/lrn.cu
void AddMomentsGpuKernels(OpRegistry& registry);              // ops/nn/moments.cu
void AddPoolGpuKernels(OpRegistry& registry);                 // ops/nn/pool.cu
void AddSigmoidCrossEntropyGpuKernels(OpRegistry& registry);  // ops/nn/sigmoid_cross_entropy.cu
void AddSmoothActivationGpuKernels(OpRegistry& registry);     // ops/nn/smooth_activations.cu
void AddSoftmaxGpuKernels(OpRegistry& registry);              // ops/nn/softmax.cu
void AddNormalGpuKernels(OpRegistry& registry);               // ops/random/normal.cu
void AddUniformGpuKernels(OpRegistry& registry);              // ops/random/uniform.cu
void AddStateGpuKernels(OpRegistry& registry);                // ops/state/register.cu
void AddAdamGpuKernels(OpRegistry& registry);                 // ops/training/adam.cu
void AddAdaptiveGpuKernels(OpRegistry& registry);             // ops/training/adaptive.cu
void AddAverageGpuKernels(OpRegistry& registry);              // ops/training/average.cu
void AddClipGpuKernels(OpRegistry& registry);                 // ops/training/clip.cu
void AddDescentGpuKernels(OpRegistry& registry);              // ops/training/descent.cu
void AddLarsGpuKernels(OpRegistry& registry);                 // ops/training/lars.cu
void AddLossScaleGpuKernels(OpRegistry& registry);            // ops/training/loss_scale.cu
void AddScheduleGpuKernels(OpRegistry& registry);             // ops/training/schedule.cu

}  // namespace belfry::ops
