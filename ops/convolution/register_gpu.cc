#include "ops/convolution/convolution_ops.h"
#include "ops/module/gpu_kernels.h"

namespace belfry::ops {

void AddConvolutionGpuKernels(KernelTable& table) { AddConv2DGpuKernels(table); }

}  // namespace belfry::ops
