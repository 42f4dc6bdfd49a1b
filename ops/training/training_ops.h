// Registration of the training ops. Internal to ops/training/.
#pragma once

#include "framework/graph/kernel_table.h"
#include "framework/graph/op_def.h"

namespace belfry::ops {

void RegisterDescentOps(OpRegistry& registry);    // gradient descent, momentum
void RegisterAdaptiveOps(OpRegistry& registry);   // RMSProp, Adagrad
void RegisterAdamOps(OpRegistry& registry);       // Adam, AdamW
void RegisterLarsOps(OpRegistry& registry);       // LARS
void RegisterAverageOps(OpRegistry& registry);    // moving averages
void RegisterClipOps(OpRegistry& registry);       // norms and clipping
void RegisterLossScaleOps(OpRegistry& registry);  // loss scales
void RegisterScheduleOps(OpRegistry& registry);   // learning rates
void RegisterSumRowsOps(OpRegistry& registry);    // sparse gradients

// In the CUDA module.
void AddAverageGpuKernels(KernelTable& table);     // average.cu
void AddClipGpuKernels(KernelTable& table);        // clip.cu
void AddUpdateRuleGpuKernels(KernelTable& table);  // rules.cu: gradient descent, ..., AdamW
void AddLarsGpuKernels(KernelTable& table);        // lars.cu
void AddLossScaleGpuKernels(KernelTable& table);   // loss_scale.cu
void AddScheduleGpuKernels(KernelTable& table);    // schedule.cu
void AddSumRowsGpuKernels(KernelTable& table);     // sum_rows.cu

}  // namespace belfry::ops
