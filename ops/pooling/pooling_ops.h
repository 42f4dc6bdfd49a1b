// Registration of the pooling ops, by source file. Internal.
#pragma once

#include "framework/graph/kernel_table.h"
#include "framework/graph/op_def.h"

namespace belfry::ops {

void RegisterPool(OpRegistry& registry);           // pool.cc
void RegisterPoolGradients(OpRegistry& registry);  // pool.cc

// In the CUDA module.
void AddPoolGpuKernels(KernelTable& table);  // pool.cu
// Inputs of MaxPoolGrad.
namespace max_pool_grad {
inline constexpr int kX = 0, kWinners = 1, kDy = 2;
}

// The rewrite "pool_masks" (rewrites/pool_masks.cc). Takes the gradient of a ReLU under a maximum pool before the
// pool's: a window's winner is above 0 where the pool's output is. The same bits from fewer elements, and the ReLU's
// output need not be kept for the backward pass.
absl::Status MaskBeforePoolGradients(Program& program, const RewriteContext& context);
// The rewrite "pool_biases" (rewrites/pool_biases.cc), for GPUs. The gradient of a bias under a maximum pool sums the
// pool's gradients: each of these goes to one element, its window's winner. There are fewer, and none is rounded to 16
// bits after it was added to another.
absl::Status SumBiasesBeforePoolGradients(Program& program, const RewriteContext& context);

}  // namespace belfry::ops
