#include "ops/module/gpu_kernels.h"
#include "ops/recurrent/recurrent_ops.h"

namespace belfry::ops {

void AddRecurrentGpuKernels(KernelTable& table) {
  AddLstmGpuKernels(table);
  AddGruGpuKernels(table);
}

}  // namespace belfry::ops
