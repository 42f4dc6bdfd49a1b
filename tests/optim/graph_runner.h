// Runs a graph node by node with RunOp, keeping variables between runs.
#pragma once

#include <vector>

#include "framework/base/memory/hash_table.h"
#include "framework/base/tensor.h"
#include "framework/graph/graph.h"

namespace belfry::optim {

class GraphRunner {
 public:
  using Feeds = HashMap<const Node*, Tensor>;

  // Runs the initializers of all variables now in the graph.
  explicit GraphRunner(const Graph& graph);

  // Runs everything that `fetches` and `targets` need, in the order of ids, which is topological, and returns the
  // fetches. Every node runs once. Errors fail the test.
  std::vector<Tensor> Run(const std::vector<Output>& fetches, const std::vector<const Node*>& targets = {},
                          const Feeds& feeds = {});
  void RunTarget(const Node* target, const Feeds& feeds = {}) { Run({}, {target}, feeds); }
  // A copy of a variable's value as doubles.
  std::vector<double> Value(const Variable& variable) const { return variables_.at(&variable.node()).ToDoubles(); }

 private:
  const Graph& graph_;
  HashMap<const Node*, Tensor> variables_;
};

}  // namespace belfry::optim
