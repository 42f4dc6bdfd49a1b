#include "tests/ops/harness/evaluate.h"

#include "absl/strings/str_cat.h"
#include "framework/base/memory/hash_table.h"
#include "framework/base/status.h"
#include "framework/compiler/eager.h"
#include "framework/device/device_set.h"
#include "framework/graph/infer.h"

namespace belfry::harness {
namespace {

using Values = HashMap<Output, Tensor>;

// Marks the nodes that `fetches` depend on, by id.
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
  NodeRun before{&node, {}, {}};
  for (size_t i = 0; i < run.inputs.size() && trace != nullptr; ++i) {
    const bool changes = node.op().input_arg(static_cast<int>(i)).ref;
    before.inputs.push_back(changes ? run.inputs[i].Clone() : run.inputs[i]);
  }
  const auto outputs = RunOp(node.op(), node.attrs(), run.inputs);
  if (!outputs.ok()) {
    return absl::Status(outputs.status().code(),
                        absl::StrCat("node '", node.name(), "' (", node.op().name, "): ", outputs.status().message()));
  }
  run.outputs = *outputs;
  for (size_t i = 0; i < run.outputs.size(); ++i) values[node.output(static_cast<int>(i))] = run.outputs[i];
  if (trace != nullptr) {
    for (const Tensor& output : *outputs) before.outputs.push_back(output.Clone());
    trace->push_back(std::move(before));
  }
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

absl::StatusOr<std::vector<Tensor>> RunKernel(const NodeRun& run, const InPlace& in_place, Device* gpu) {
  const OpDef& op = run.node->op();
  const DType dtype = KernelDType(op, run.node->attrs());
  const KernelDef* def = op.FindKernel(gpu == nullptr ? "CPU" : "GPU", dtype);
  if (def == nullptr) return absl::NotFoundError(absl::StrCat("no kernel of ", op.name, " for ", DTypeName(dtype)));
  std::vector<TensorSpec> input_specs, output_specs;
  for (const Tensor& input : run.inputs) input_specs.push_back({input.dtype(), input.shape()});
  for (const Tensor& output : run.outputs) output_specs.push_back({output.dtype(), output.shape()});
  ASSIGN_OR_RETURN(const Kernel kernel, def->make({op.name, run.node->attrs(), input_specs, output_specs, gpu}));

  // Copies of the inputs, on the host and, in separate blocks, on the device.
  std::vector<Tensor> inputs, outputs;
  for (const Tensor& input : run.inputs) inputs.push_back(input.Clone());
  std::vector<DeviceMemory> memory;
  std::unique_ptr<Stream> stream;
  const DeviceSet host = DeviceSet::Open("cpu:1").value();
  if (gpu != nullptr) {
    ASSIGN_OR_RETURN(stream, gpu->NewStream(StreamKind::kCompute));
  }
  const auto place = [&](const Tensor& tensor) -> absl::StatusOr<void*> {
    if (gpu == nullptr) return const_cast<void*>(tensor.raw());
    ASSIGN_OR_RETURN(memory.emplace_back(), DeviceMemory::Allocate(*gpu, tensor.bytes()));
    RETURN_IF_ERROR(stream->Copy(memory.back().data(), *gpu, tensor.raw(), host.device(0), tensor.bytes()));
    RETURN_IF_ERROR(stream->Synchronize());
    return memory.back().data();
  };
  std::vector<const void*> input_data;
  std::vector<void*> output_data;
  for (const Tensor& input : inputs) {
    ASSIGN_OR_RETURN(const void* const data, place(input));
    input_data.push_back(data);
  }
  const int in_place_out = kernel.in_place ? in_place.out : -1;
  for (size_t i = 0; i < run.outputs.size(); ++i) {
    const int from = op.output_arg(static_cast<int>(i)).ref ? static_cast<int>(i)
                     : static_cast<int>(i) == in_place_out  ? in_place.in
                                                            : -1;
    outputs.push_back(from >= 0 ? inputs[from] : Tensor(output_specs[i].dtype, output_specs[i].shape));
    ASSIGN_OR_RETURN(void* data, from >= 0 ? const_cast<void*>(input_data[from]) : place(outputs.back()));
    output_data.push_back(data);
  }
  const Tensor space(DType::kUInt8, {static_cast<int64_t>(kernel.workspace_bytes)});
  ASSIGN_OR_RETURN(void* const workspace, place(space));
  RETURN_IF_ERROR(kernel.run({input_data.data(), output_data.data(), workspace, 0, stream.get()}));

  std::vector<std::pair<Tensor, const void*>> results;
  for (size_t i = 0; i < outputs.size(); ++i) results.emplace_back(outputs[i], output_data[i]);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (op.input_arg(static_cast<int>(i)).ref) results.emplace_back(inputs[i], input_data[i]);
  }
  std::vector<Tensor> values;
  for (auto& [tensor, data] : results) {
    if (gpu != nullptr) RETURN_IF_ERROR(stream->Copy(tensor.raw(), host.device(0), data, *gpu, tensor.bytes()));
    values.push_back(tensor);
  }
  if (gpu != nullptr) RETURN_IF_ERROR(stream->Synchronize());
  if (kernel.error) RETURN_IF_ERROR(kernel.error());
  return values;
}

}  // namespace belfry::harness
