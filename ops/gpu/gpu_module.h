// The kernels of the CUDA module (framework/base/module.h).
#pragma once

#include "framework/graph/kernel_table.h"

namespace belfry::ops {

// The module's table for this layer, part "ops".
struct GpuKernels {
  void (*add)(KernelTable& table);
};

}  // namespace belfry::ops
