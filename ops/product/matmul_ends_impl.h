// Ops of a matrix product and what follows it, for products whose library computes both. Internal.
//
//   MatMulBiasGrad: a, b -> product, dbias. dbias [n] is the sum of b's rows, the bias gradient where b is dy and the
//     product that of the weights. b is not transposed.
//   MatMulBiasGelu: a, b, bias -> x, y. y = Gelu(x), and x = a b + bias.
//   MatMulGeluGrad: a, b, x -> dx. dx = a b times the slope of the GELU at x.
//
// a and b are matrices, and the GELU is the form with tanh.
#pragma once

#include "absl/status/statusor.h"
#include "framework/graph/kernel.h"

namespace belfry::ops {

// Kernels of these ops that run two others, which the factories make: of MatMul or FusedMatMul, and of BiasAddGrad,
// Gelu or GeluGrad. On CPUs and GPUs.
absl::StatusOr<Kernel> ProductThenBiasGrad(const KernelSpec& spec, const KernelFactory& product,
                                           const KernelFactory& bias_grad);
absl::StatusOr<Kernel> ProductThenGelu(const KernelSpec& spec, const KernelFactory& fused_product,
                                       const KernelFactory& gelu);
absl::StatusOr<Kernel> ProductThenGeluGrad(const KernelSpec& spec, const KernelFactory& product,
                                           const KernelFactory& gelu_grad);

}  // namespace belfry::ops
