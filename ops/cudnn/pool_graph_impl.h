// Pooling as a cuDNN operation. Internal.
#pragma once

#include "absl/status/statusor.h"
#include "ops/cudnn/operation_graph.h"
#include "ops/cudnn/pool.h"

namespace belfry::cudnn {

// Tensor ids number the operands of MakeLibraryGpuPool from 1 on.
absl::StatusOr<OperationGraph> MakePoolGraph(const ops::GpuPool& p);

}  // namespace belfry::cudnn
