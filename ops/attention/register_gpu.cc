#include "ops/attention/attention_ops.h"
#include "ops/module/gpu_kernels.h"

namespace belfry::ops {

void AddAttentionGpuKernels(KernelTable& table) {
  AddAttentionForwardGpuKernels(table);
  AddAttentionGradGpuKernels(table);
  AddRotaryGpuKernels(table);
}

}  // namespace belfry::ops
