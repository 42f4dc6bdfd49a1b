// Registration of the reductions, by source file. Internal.
#pragma once

#include "framework/graph/kernel_table.h"
#include "framework/graph/op_def.h"
#include "ops/math.h"

namespace belfry::ops {

void RegisterAxisScans(OpRegistry& registry);  // axis_scan.cc
void RegisterExtremes(OpRegistry& registry);   // extremes.cc
void RegisterTopK(OpRegistry& registry);       // top_k.cc
void RegisterSums(OpRegistry& registry);       // sums.cc

// A result with keep_dims without the axes that were reduced (log_sum_exp.cc).
Output DropReduced(const Scope& scope, Output kept, const Axes& axes);

// In the CUDA module.
void AddExtremeGpuKernels(KernelTable& table);   // extremes.cu
void AddSumGpuKernels(KernelTable& table);       // sums.cu
void AddAxisScanGpuKernels(KernelTable& table);  // axis_scan.cu
void AddTopKGpuKernels(KernelTable& table);      // top_k.cu

}  // namespace belfry::ops
