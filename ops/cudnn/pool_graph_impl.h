// Pooling as one of cuDNN's operations. Internal.
#pragma once

#include "absl/status/statusor.h"
#include "ops/cudnn/operation_graph.h"
#include "ops/pooling/pool_gpu_impl.h"

namespace belfry::cudnn {

// The ids of tensors are those of MakeLibraryGpuPool's operands, from 1 on.
absl::StatusOr<OperationGraph> MakePoolGraph(const ops::GpuPool& p);

}  // namespace belfry::cudnn
