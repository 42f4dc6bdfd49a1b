// Convolution as a graph of cuDNN operations. Internal.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "ops/cudnn/convolution.h"
#include "ops/cudnn/operation_graph.h"

namespace belfry::cudnn {

// Ids of the tensors in device memory.
enum TensorId : int64_t { kX = 1, kFilter, kY, kBias };

// The convolution, followed by bias and ReLU if requested. Images are [n, h, w, c], filters [k, r, s, c / groups].
absl::StatusOr<OperationGraph> MakeConvolutionGraph(const ops::GpuConv& p);

}  // namespace belfry::cudnn
