// Registration of the pooling ops, by source file. Internal.
#pragma once

#include "framework/graph/kernel_table.h"
#include "framework/graph/op_def.h"

namespace belfry::ops {

void RegisterPool(OpRegistry& registry);  // pool.cc

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

}  // namespace belfry::ops
