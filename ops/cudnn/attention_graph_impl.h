// Attention as a graph of operations. Internal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "ops/cudnn/attention.h"
#include "ops/cudnn/operation_graph.h"

namespace belfry::cudnn {

// Ids of the operands; those of the gradient follow, then of scratch tensors, then of constants: the scale; 1, in the
// gradient; the score of hidden keys, if causal. The operations are those that cuDNN makes one kernel of ("Attention"
// in the documentation of cudnn-frontend).
enum : int64_t { kQuery = 1, kKey, kValue, kResult, kStats };

// `ordered`: the gradient is to be summed in a fixed order, for which engines need memory for all scores. Unimplemented
// for causal attention between unequal numbers of queries and keys.
absl::StatusOr<OperationGraph> MakeAttentionGraph(const ops::GpuAttention& attention, bool ordered);
// The sizes in bytes of the gradient's scratch tensors.
std::vector<size_t> AttentionScratch(const ops::GpuAttention& attention, bool ordered);

}  // namespace belfry::cudnn
