// Registration of the convolution ops, by source file. Internal.
#pragma once

#include "framework/graph/kernel_table.h"
#include "framework/graph/op_def.h"

namespace belfry::ops {

void RegisterConv2D(OpRegistry& registry);                // conv2d.cc
void RegisterConv2DGradients(OpRegistry& registry);       // conv2d.cc
void RegisterConv2DTranspose(OpRegistry& registry);       // conv2d_transpose.cc
void RegisterFusedConv2D(OpRegistry& registry);           // fused.cc
void RegisterFusedConv2DGradients(OpRegistry& registry);  // fused.cc

// In the CUDA module.
void AddConv2DGpuKernels(KernelTable& table);  // conv2d_gpu.cc

// The rewrite "input_gradients" (rewrites/input_gradients.cc). Makes one node of a convolution's gradient with respect
// to its images, an addition to it and the mask of a ReLU's gradient, where nothing else reads what lies between: the
// gradient that a residual block hands to the block before it.
absl::Status FuseInputGradients(Program& program, const RewriteContext& context);

// The rewrite "filter_layouts" (rewrites/filter_layouts.cc), for devices that compile kernels. cuDNN's filters are [K,
// R, S, C]. Convolutions whose filter is a variable, or one converted to another dtype, get it transposed, and give
// their filter's gradient transposed: one generated kernel then transposes and converts all filters of a model, and the
// kernel that updates a filter reads the transposed gradient.
absl::Status TurnFilters(Program& program, const RewriteContext& context);

}  // namespace belfry::ops
