// Values of a graph's outputs, and of single kernels, for tests of ops.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/base/tensor.h"
#include "framework/device/device.h"
#include "framework/graph/gradient_checker.h"

namespace belfry::harness {

// What a node read and wrote; the variables that it updates, as they were before.
struct NodeRun {
  const Node* node;
  std::vector<Tensor> inputs, outputs;
};

// Computes `fetches` with RunOp, node by node in the order of their ids. `feeds` are copied first, so that a variable
// that is fed keeps its value. `trace`, if not null, receives every node that ran.
absl::StatusOr<std::vector<Tensor>> Evaluate(absl::Span<const Output> fetches, const FeedList& feeds,
                                             std::vector<NodeRun>* trace = nullptr);

// An output that lies in the memory of an input, if the kernel allows it; none.
struct InPlace {
  int in = -1, out = -1;
};

// Runs a node's kernel again on copies of a recorded run's inputs, on a CPU or on `gpu`, if that is not null. Returns
// the outputs, then the variables that it updated. NotFound if there is no such kernel.
absl::StatusOr<std::vector<Tensor>> RunKernel(const NodeRun& run, const InPlace& in_place = {}, Device* gpu = nullptr);

}  // namespace belfry::harness
