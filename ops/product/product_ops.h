// Registration of the matrix products, by source file. Internal.
#pragma once

#include "framework/graph/kernel_table.h"
#include "framework/graph/op_def.h"

namespace belfry::ops {

void RegisterMatMul(OpRegistry& registry);       // matmul.cc
void RegisterFusedMatMul(OpRegistry& registry);  // fused_matmul.cc
void RegisterMatMulEnds(OpRegistry& registry);   // matmul_ends.cc

// CPU kernels of MatMul, for float, double and BFloat16.
template <class T>
absl::StatusOr<Kernel> MakeMatMul(const KernelSpec& spec);

// The same of FusedMatMul.
template <class T>
absl::StatusOr<Kernel> MakeFusedMatMul(const KernelSpec& spec);

// The rewrite "product_gelu" (rewrites/product_gelu.cc), for GPUs, whose library computes a product together with the
// GELU with tanh or with its gradient. Makes one node of a product with its bias and a GELU, whose argument the
// backward pass reads, and of the gradient's product with the GELU's slope.
absl::Status FuseProductGelu(Program& program, const RewriteContext& context);

// The shape of the product of matrices a and b, inputs 0 and 1 of an op with MatMul's attributes.
absl::StatusOr<Shape> ProductOfMatrices(const ShapeArgs& args);

// OpDef::flops of MatMul and of ops like it.
double MatMulFlops(const KernelSpec& of);

// In the CUDA module.
void AddMatMulGpuKernels(KernelTable& table);       // matmul_gpu.cc
void AddPlainMatMulGpuKernels(KernelTable& table);  // matmul.cu

}  // namespace belfry::ops
