// Registration of the losses, by source file. Internal.
#pragma once

#include "framework/graph/kernel_table.h"
#include "framework/graph/op_def.h"

namespace belfry::ops {

void RegisterCrossEntropy(OpRegistry& registry);         // cross_entropy.cc
void RegisterSigmoidCrossEntropy(OpRegistry& registry);  // sigmoid_cross_entropy.cc
void RegisterL2Loss(OpRegistry& registry);               // l2_loss.cc

// The rewrite "loss_gradients" (rewrites/loss_gradients.cc), for GPUs. The kernel of a cross-entropy of labels gives
// the gradient of its logits, where that of the loss does not depend on the loss, and one pass over the logits is
// saved.
absl::Status FuseLossGradients(Program& program, const RewriteContext& context);

// In the CUDA module.
void AddCrossEntropyGpuKernels(KernelTable& table);  // cross_entropy.cu
void AddL2LossGpuKernels(KernelTable& table);        // l2_loss.cu

}  // namespace belfry::ops
