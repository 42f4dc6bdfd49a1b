#include "ops/normalisation/normalisation_ops.h"
#include "ops/normalisation/row_norm_gpu_impl.h"

namespace belfry::ops {

void AddLayerNormGpuKernels(KernelTable& table) { AddNormGpuKernels</*centred=*/true, RowLayout>(table, "LayerNorm"); }

}  // namespace belfry::ops
