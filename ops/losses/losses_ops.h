// Registration of the losses, by source file. Internal.
#pragma once

#include <vector>

#include "framework/compiler/rewrite.h"
#include "framework/graph/kernel_table.h"
#include "framework/graph/op_def.h"

namespace belfry::ops {

void RegisterCrossEntropy(OpRegistry& registry);         // cross_entropy.cc
void RegisterSigmoidCrossEntropy(OpRegistry& registry);  // sigmoid_cross_entropy.cc
void RegisterL2Loss(OpRegistry& registry);               // l2_loss.cc
void RegisterL2Losses(OpRegistry& registry);             // l2_losses.cc

// The rewrite "l2_losses" (rewrites/l2_losses.cc), for GPUs. Makes one L2Losses of the L2Loss terms of a sum, scaled or
// not, that nothing else reads: the weight decay of all variables of a model, in one launch.
absl::Status JoinL2Losses(Program& program, const RewriteContext& context);

// L2Losses, which only that rewrite adds: the sum of factors[i] / 2 times the squares of input i. These are its
// factors / 2, by input.
std::vector<double> L2Factors(const KernelSpec& spec);

// In the CUDA module.
void AddCrossEntropyGpuKernels(KernelTable& table);         // cross_entropy.cu
void AddSigmoidCrossEntropyGpuKernels(KernelTable& table);  // sigmoid_cross_entropy.cu
void AddL2LossGpuKernels(KernelTable& table);               // l2_loss.cu
void AddL2LossesGpuKernels(KernelTable& table);             // l2_losses.cu

}  // namespace belfry::ops
