#include "ops/elementwise/elementwise_ops.h"
#include "ops/module/gpu_kernels.h"

namespace belfry::ops {

void AddElementwiseGpuKernels(KernelTable& table) {
  AddSelectGpuKernels(table);
  AddArithmeticGpuKernels(table);
  AddCheckNumericsGpuKernels(table);
  AddComparisonGpuKernels(table);
  AddExponentialGpuKernels(table);
  AddRoundingGpuKernels(table);
  AddTrigonometricGpuKernels(table);
  AddAddNGpuKernels(table);
}

}  // namespace belfry::ops
