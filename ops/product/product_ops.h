// Registration of the matrix products, by source file. Internal.
#pragma once

#include "framework/graph/kernel_table.h"
#include "framework/graph/op_def.h"

namespace belfry::ops {

void RegisterMatMul(OpRegistry& registry);       // matmul.cc
void RegisterFusedMatMul(OpRegistry& registry);  // fused_matmul.cc

// CPU kernels of MatMul, for float, double and BFloat16.
template <class T>
absl::StatusOr<Kernel> MakeMatMul(const KernelSpec& spec);

// OpDef::flops of MatMul and FusedMatMul.
double MatMulFlops(const KernelSpec& of);

// In the CUDA module.
void AddMatMulGpuKernels(KernelTable& table);       // matmul_gpu.cc
void AddPlainMatMulGpuKernels(KernelTable& table);  // matmul.cu

}  // namespace belfry::ops
