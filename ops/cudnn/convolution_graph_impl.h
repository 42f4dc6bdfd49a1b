// A convolution as cuDNN's operations. Internal.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "ops/convolution/conv2d_gpu_impl.h"
#include "ops/cudnn/operation_graph.h"

namespace belfry::cudnn {

// Unique ids of the tensors that lie in memory.
enum TensorId : int64_t { kX = 1, kFilter, kY, kBias };

// The convolution, then bias and ReLU as asked for. Images are [n, h, w, c], filters [k, r, s, c / groups].
absl::StatusOr<OperationGraph> MakeConvolutionGraph(const ops::GpuConv& p);

}  // namespace belfry::cudnn
