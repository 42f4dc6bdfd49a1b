#include "ops/copy/copy_ops.h"
#include "ops/module/gpu_kernels.h"

namespace belfry::ops {

void AddCopyGpuKernels(KernelTable& table) {
  AddBoxCopyGpuKernels(table);
  AddCastGpuKernels(table);
  AddConcatGpuKernels(table);
  AddConstantGpuKernels(table);
  AddExtentsGpuKernels(table);
  AddTileGpuKernels(table);
}

}  // namespace belfry::ops
