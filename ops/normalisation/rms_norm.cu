#include "ops/normalisation/normalisation_ops.h"
#include "ops/normalisation/row_norm_gpu_impl.h"

namespace belfry::ops {

void AddRmsNormGpuKernels(KernelTable& table) { AddNormGpuKernels</*centred=*/false, RowLayout>(table, "RmsNorm"); }

}  // namespace belfry::ops
