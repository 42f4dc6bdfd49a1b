// Values of a graph's outputs, and of single kernels, for tests of ops.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/base/tensor.h"
#include "framework/runtime/gradient_checker.h"

namespace belfry::harness {

// What a node read and wrote.
struct NodeRun {
  const Node* node;
  std::vector<Tensor> inputs, outputs;
};

// Computes `fetches` with RunOp, node by node in the order of their ids. `feeds` are copied first, so that a variable
// that is fed keeps its value. `trace`, if not null, receives every node that ran.
absl::StatusOr<std::vector<Tensor>> Evaluate(absl::Span<const Output> fetches, const FeedList& feeds,
                                             std::vector<NodeRun>* trace = nullptr);

// Runs a node's CPU kernel again on a recorded run's inputs, with output `out` in the memory of input `in`.
absl::StatusOr<std::vector<Tensor>> RunInPlace(const NodeRun& run, int in, int out);

}  // namespace belfry::harness
