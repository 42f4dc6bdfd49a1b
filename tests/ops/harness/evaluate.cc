#include "tests/ops/harness/evaluate.h"

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/graph/infer.h"
#include "framework/runtime/eager.h"

namespace belfry::harness {
namespace {

using Values = absl::flat_hash_map<Output, Tensor>;

// Marks the nodes that `fetches` need, by id.
std::vector<bool> FindNeeded(absl::Span<const Output> fetches, const Values& fed) {
  std::vector<bool> needed;
  std::vector<const Node*> stack;
  const auto visit = [&](const Node* node) {
    const auto id = static_cast<size_t>(node->id());
    if (needed.size() <= id) needed.resize(id + 1);
    if (!needed[id]) stack.push_back(node);
    needed[id] = true;
  };
  for (const Output& fetch : fetches) visit(fetch.node);
  while (!stack.empty()) {
    const Node* node = stack.back();
    stack.pop_back();
    if (!node->outputs().empty() && fed.contains(node->output(0))) continue;
    for (const Output& input : node->inputs()) visit(input.node);
    for (const Node* control : node->control_inputs()) visit(control);
  }
  return needed;
}

absl::Status RunNode(const Node& node, Values& values, std::vector<NodeRun>* trace) {
  NodeRun run{&node, {}, {}};
  for (size_t i = 0; i < node.inputs().size(); ++i) {
    const auto found = values.find(node.input(static_cast<int>(i)));
    if (found == values.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", node.name(), "' reads '", node.inputs()[i].name(), "', which has no value"));
    }
    run.inputs.push_back(found->second);
  }
  const auto outputs = RunOp(node.op(), node.attrs(), run.inputs);
  if (!outputs.ok()) {
    return absl::Status(outputs.status().code(),
                        absl::StrCat("node '", node.name(), "' (", node.op().name, "): ", outputs.status().message()));
  }
  run.outputs = *outputs;
  for (size_t i = 0; i < run.outputs.size(); ++i) values[node.output(static_cast<int>(i))] = run.outputs[i];
  if (trace != nullptr) trace->push_back(std::move(run));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<Tensor>> Evaluate(absl::Span<const Output> fetches, const FeedList& feeds,
                                             std::vector<NodeRun>* trace) {
  if (fetches.empty()) return std::vector<Tensor>();
  Values values;
  for (const auto& [output, value] : feeds) values[output] = value.Clone();
  const Graph& graph = fetches[0].node->graph();
  const std::vector<bool> needed = FindNeeded(fetches, values);
  for (size_t id = 0; id < needed.size(); ++id) {
    const Node& node = graph.node(static_cast<int>(id));
    const bool is_fed = !node.outputs().empty() && values.contains(node.output(0));
    if (needed[id] && !is_fed) RETURN_IF_ERROR(RunNode(node, values, trace));
  }
  std::vector<Tensor> result;
  for (const Output& fetch : fetches) result.push_back(values.at(fetch));
  return result;
}

absl::StatusOr<std::vector<Tensor>> RunInPlace(const NodeRun& run, int in, int out) {
  const OpDef& op = run.node->op();
  std::vector<TensorSpec> input_specs, output_specs;
  std::vector<Tensor> inputs, outputs;
  std::vector<const void*> input_data;
  std::vector<void*> output_data;
  for (const Tensor& input : run.inputs) {
    input_specs.push_back({input.dtype(), input.shape()});
    inputs.push_back(input.Clone());
    input_data.push_back(inputs.back().raw());
  }
  for (size_t i = 0; i < run.outputs.size(); ++i) {
    output_specs.push_back({run.outputs[i].dtype(), run.outputs[i].shape()});
    outputs.push_back(static_cast<int>(i) == out ? inputs[in] : Tensor(output_specs[i].dtype, output_specs[i].shape));
    output_data.push_back(outputs.back().raw());
  }
  const KernelDef* def = op.FindKernel("CPU", KernelDType(op, run.node->attrs()));
  if (def == nullptr) return absl::UnimplementedError(absl::StrCat("no CPU kernel of ", op.name));
  ASSIGN_OR_RETURN(const Kernel kernel, def->make({op.name, run.node->attrs(), input_specs, output_specs}));
  Tensor workspace(DType::kUInt8, {static_cast<int64_t>(kernel.workspace_bytes)});
  RETURN_IF_ERROR(kernel.run({input_data.data(), output_data.data(), workspace.raw(), 0, nullptr}));
  return outputs;
}

}  // namespace belfry::harness
