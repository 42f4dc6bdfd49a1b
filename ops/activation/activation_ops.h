// Registration of the activation ops, by source file. Internal.
#pragma once

#include "framework/graph/kernel_table.h"
#include "framework/graph/op_def.h"

namespace belfry::ops {

void RegisterActivations(OpRegistry& registry);        // activations.cc
void RegisterSmoothActivations(OpRegistry& registry);  // smooth_activations.cc
void RegisterSoftmax(OpRegistry& registry);            // softmax.cc
void RegisterBias(OpRegistry& registry);               // bias.cc
void RegisterDropout(OpRegistry& registry);            // dropout.cc

// In the CUDA module.
void AddBiasGpuKernels(KernelTable& table);     // bias.cu
void AddSoftmaxGpuKernels(KernelTable& table);  // softmax.cu
void AddDropoutGpuKernels(KernelTable& table);  // dropout.cu

// The rewrite "bias_activation" (rewrites/bias_activation.cc). Makes one node of Conv2D or MatMul, BiasAdd and
// activation, and of a convolution's filter and bias gradients, where nothing else reads what lies between.
absl::Status FuseBiasAndActivation(Program& program, const RewriteContext& context);

// Kernels of BiasAddGrad for every float type, for ops that sum a bias gradient along with another.
absl::StatusOr<Kernel> MakeBiasAddGrad(const KernelSpec& spec);     // bias.cc
absl::StatusOr<Kernel> MakeGpuBiasAddGrad(const KernelSpec& spec);  // bias.cu
// The functions of Gelu and GeluGrad, for ops that compute one along with a product.
absl::StatusOr<Kernel> MakeGelu(const KernelSpec& spec);      // smooth_activations.cc
absl::StatusOr<Kernel> MakeGeluGrad(const KernelSpec& spec);  // smooth_activations.cc

// Inputs of ReluGrad, Relu6Grad and the other gradients that are computed from the result y.
namespace relu_grad {
inline constexpr int kDy = 0, kY = 1;
}

}  // namespace belfry::ops
