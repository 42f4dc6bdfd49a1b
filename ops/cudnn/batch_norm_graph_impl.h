// Batch norm as cuDNN's operations. Internal.
#pragma once

#include "absl/status/statusor.h"
#include "ops/cudnn/operation_graph.h"
#include "ops/normalisation/batch_norm_gpu_impl.h"

namespace belfry::cudnn {

// The ids of tensors are those of MakeLibraryGpuBatchNorm's operands from 1 on; then, not of the gradient, epsilon in
// host memory.
absl::StatusOr<OperationGraph> MakeBatchNormGraph(const ops::GpuBatchNorm& p);

}  // namespace belfry::cudnn
