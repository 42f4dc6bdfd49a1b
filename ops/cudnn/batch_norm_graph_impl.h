// Batch normalisation as a graph of cuDNN operations. Internal.
#pragma once

#include "absl/status/statusor.h"
#include "ops/cudnn/batch_norm.h"
#include "ops/cudnn/operation_graph.h"

namespace belfry::cudnn {

// Tensor ids number the operands of MakeLibraryGpuBatchNorm from 1 on. The forward graph also has epsilon, in host
// memory, with the next id.
absl::StatusOr<OperationGraph> MakeBatchNormGraph(const ops::GpuBatchNorm& p);

}  // namespace belfry::cudnn
