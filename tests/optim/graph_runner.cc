#include "tests/optim/graph_runner.h"

#include "framework/compiler/eager.h"
#include "tests/main/testing.h"

namespace belfry::optim {

GraphRunner::GraphRunner(const Graph& graph) : graph_(graph) {
  EXPECT_TRUE(graph.status().ok()) << graph.status();
  std::vector<const Node*> initializers;
  for (const Variable& variable : graph.variables()) {
    variables_[&variable.node()] = Tensor(variable.dtype(), variable.shape());
    initializers.push_back(&variable.initializer());
  }
  Run({}, initializers);
}

std::vector<Tensor> GraphRunner::Run(const std::vector<Output>& fetches, const std::vector<const Node*>& targets,
                                     const Feeds& feeds) {
  std::vector<bool> needed(static_cast<size_t>(graph_.size()));
  std::vector<const Node*> stack;
  const auto visit = [&](const Node* node) {
    if (node == nullptr || needed[static_cast<size_t>(node->id())]) return;
    needed[static_cast<size_t>(node->id())] = true;
    if (!feeds.contains(node)) stack.push_back(node);
  };
  for (const Output& fetch : fetches) visit(fetch.node);
  for (const Node* target : targets) visit(target);
  EXPECT_TRUE(graph_.status().ok()) << graph_.status();
  while (!stack.empty()) {
    const Node* node = stack.back();
    stack.pop_back();
    for (const Output& input : node->inputs()) visit(input.node);
    for (const Node* control : node->control_inputs()) visit(control);
  }
  HashMap<Output, Tensor> values;
  for (int id = 0; id < graph_.size(); ++id) {
    const Node& node = graph_.node(id);
    if (!needed[static_cast<size_t>(id)]) continue;
    if (const auto fed = feeds.find(&node); fed != feeds.end()) {
      values[node.output(0)] = fed->second;
    } else if (const auto variable = variables_.find(&node); variable != variables_.end()) {
      values[node.output(0)] = variable->second;
    } else {
      std::vector<Tensor> inputs;
      for (const Output& input : node.inputs()) inputs.push_back(values.at(input));
      const auto outputs = RunOp(node.op(), node.attrs(), inputs);
      EXPECT_TRUE(outputs.ok()) << node.Summary() << ": " << outputs.status();
      if (!outputs.ok()) return {};
      for (size_t i = 0; i < outputs->size(); ++i) values[node.output(static_cast<int>(i))] = (*outputs)[i];
    }
  }
  std::vector<Tensor> fetched;
  for (const Output& fetch : fetches) fetched.push_back(values.at(fetch).Clone());
  return fetched;
}

}  // namespace belfry::optim
