// Evaluation of graph outputs and of single kernels, for tests of ops.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/base/tensor.h"
#include "framework/device/device.h"
#include "framework/graph/gradient_checker.h"

namespace belfry::harness {

// The inputs and outputs of a node's run; variables that it updates are recorded as they were before.
struct NodeRun {
  const Node* node;
  std::vector<Tensor> inputs, outputs;
};

// Computes `fetches` with RunOp, node by node in the order of their ids. `feeds` are copied first, so a fed variable
// keeps its value. If `trace` is not null, every node that runs is appended to it.
absl::StatusOr<std::vector<Tensor>> Evaluate(absl::Span<const Output> fetches, const FeedList& feeds,
                                             std::vector<NodeRun>* trace = nullptr);

// An output that shares the memory of an input, if the kernel allows it; by default none.
struct InPlace {
  int in = -1, out = -1;
};

// Reruns a node's kernel on copies of a recorded run's inputs, on a CPU or, if not null, on `gpu`. Returns the outputs,
// followed by the variables that it updated. NotFound if there is no such kernel.
absl::StatusOr<std::vector<Tensor>> RunKernel(const NodeRun& run, const InPlace& in_place = {}, Device* gpu = nullptr);

}  // namespace belfry::harness
