#include "ops/module/gpu_kernels.h"
#include "ops/training/training_ops.h"

namespace belfry::ops {

void AddTrainingGpuKernels(KernelTable& table) {
  AddAdamGpuKernels(table);
  AddAdaptiveGpuKernels(table);
  AddAverageGpuKernels(table);
  AddClipGpuKernels(table);
  AddDescentGpuKernels(table);
  AddLarsGpuKernels(table);
  AddLossScaleGpuKernels(table);
  AddScheduleGpuKernels(table);
  AddSumRowsGpuKernels(table);
}

}  // namespace belfry::ops
