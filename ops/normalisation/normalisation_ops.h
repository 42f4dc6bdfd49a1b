// Registration of the normalisation ops, by source file. Internal.
#pragma once

#include "framework/graph/kernel_table.h"
#include "framework/graph/op_def.h"
#include "ops/math.h"

namespace belfry::ops {

void RegisterLrn(OpRegistry& registry);                 // lrn.cc
void RegisterLrnGradients(OpRegistry& registry);        // lrn.cc
void RegisterMoments(OpRegistry& registry);             // moments.cc
void RegisterBatchNorm(OpRegistry& registry);           // batch_norm.cc
void RegisterBatchNormGradients(OpRegistry& registry);  // batch_norm.cc
void RegisterFilterNorm(OpRegistry& registry);          // filter_norm.cc
void RegisterLayerNorm(OpRegistry& registry);           // layer_norm.cc
void RegisterLayerNormGradients(OpRegistry& registry);  // layer_norm.cc
void RegisterRmsNorm(OpRegistry& registry);             // rms_norm.cc
void RegisterRmsNormGradients(OpRegistry& registry);    // rms_norm.cc
void RegisterGroupNorm(OpRegistry& registry);           // group_norm.cc
void RegisterGroupNormGradients(OpRegistry& registry);  // group_norm.cc
void RegisterResidualNorms(OpRegistry& registry);       // residual_norms.cc

// In the CUDA module.
void AddBatchNormGpuKernels(KernelTable& table);  // batch_norm.cu
void AddRowNormGpuKernels(KernelTable& table);    // row_norms.cu: LayerNorm, RmsNorm, GroupNorm
void AddLrnGpuKernels(KernelTable& table);        // lrn.cu
void AddMomentsGpuKernels(KernelTable& table);    // moments.cu
// Arguments of BatchNorm and, except for the addend, BatchNormRelu and BatchNormRelu6; BatchNormAddRelu has
// them all.
namespace batch_norm {
inline constexpr int kX = 0, kScale = 1, kOffset = 2;   // inputs
inline constexpr int kY = 0, kMean = 1, kVariance = 2;  // outputs
}  // namespace batch_norm
// Inputs of BatchNormInference.
namespace batch_norm_inference {
inline constexpr int kX = 0, kScale = 1, kOffset = 2, kMean = 3, kVariance = 4;
}
// Inputs of BatchNormGrad.
namespace batch_norm_grad {
inline constexpr int kX = 0, kDy = 1, kScale = 2, kMean = 3, kVariance = 4;
}

// Inputs of LRNGrad.
namespace lrn_grad {
inline constexpr int kDy = 0, kX = 1;
}

// The rewrite "norms" (rewrites/norms.cc). Makes one node of a batch norm, an addition after it and the ReLU after
// that, where nothing else reads what lies between; and of the gradients of batch norm and of the ReLU over it.
absl::Status FuseNorms(Program& program, const RewriteContext& context);
// The rewrite "filter_norms" (rewrites/filter_norms.cc), for CPUs. A convolution or a product of matrices takes a batch
// norm with fixed statistics after it into its weights, where nothing else reads what lies between.
absl::Status FoldNormsIntoFilters(Program& program, const RewriteContext& context);
// The rewrite "lrn_masks" (rewrites/lrn_masks.cc). The gradient of local response normalisation masks what it writes,
// where its input is the output of a ReLU whose gradient comes next.
absl::Status MaskLrnGradients(Program& program, const RewriteContext& context);
// The rewrite "residual_norms" (rewrites/residual_norms.cc), for GPUs. Makes one node of an addition and the layer norm
// or RMS norm of the sum, which others may read too, and of such a norm's gradient and an addition to it.
absl::Status FuseResidualNorms(Program& program, const RewriteContext& context);

// All axes of x but that of the channels. In moments.cc.
Axes AllButLast(const Output& x);
// The axes that a scale of the trailing ones has. In layer_norm.cc.
Axes TrailingAxes(const Output& scale);
// (x - mean) / sqrt(variance + epsilon) over `axes`, or x / sqrt(mean(x^2) + epsilon), of ops that have derivatives:
// for second derivatives. In layer_norm.cc.
Output Normalized(const Scope& scope, Output x, const Axes& axes, double epsilon, bool centred = true);

// CPU kernels of the norms and their gradients, for ops that compute one and a sum.
template <class T>
absl::StatusOr<Kernel> MakeLayerNorm(const KernelSpec& spec);  // layer_norm.cc
template <class T>
absl::StatusOr<Kernel> MakeLayerNormGrad(const KernelSpec& spec);
template <class T>
absl::StatusOr<Kernel> MakeRmsNorm(const KernelSpec& spec);  // rms_norm.cc
template <class T>
absl::StatusOr<Kernel> MakeRmsNormGrad(const KernelSpec& spec);

}  // namespace belfry::ops
