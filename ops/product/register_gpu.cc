#include "ops/module/gpu_kernels.h"
#include "ops/product/product_ops.h"

namespace belfry::ops {

void AddProductGpuKernels(KernelTable& table) {
  AddMatMulGpuKernels(table);
  AddPlainMatMulGpuKernels(table);
}

}  // namespace belfry::ops
