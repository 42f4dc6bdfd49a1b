// Registration of the element-wise ops, by source file. Internal.
#pragma once

#include "framework/graph/kernel_table.h"
#include "framework/graph/op_def.h"

namespace belfry::ops {

void RegisterArithmetic(OpRegistry& registry);     // arithmetic.cc
void RegisterAddN(OpRegistry& registry);           // add_n.cc
void RegisterComparisons(OpRegistry& registry);    // comparison.cc
void RegisterExponentials(OpRegistry& registry);   // exponential.cc
void RegisterRounding(OpRegistry& registry);       // rounding.cc
void RegisterTrigonometric(OpRegistry& registry);  // trigonometric.cc
void RegisterSelectOps(OpRegistry& registry);      // select.cc
void RegisterCheckNumerics(OpRegistry& registry);  // check_numerics.cc

// In the CUDA module.
void AddCheckNumericsGpuKernels(KernelTable& table);  // check_numerics.cu
void AddAddNGpuKernels(KernelTable& table);           // add_n.cu

}  // namespace belfry::ops
