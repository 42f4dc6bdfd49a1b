#include <algorithm>
#include <vector>

#include "framework/compiler/eager.h"
#include "framework/compiler/passes/passes.h"

namespace belfry {
namespace {

// The most bytes that a constant in place of an output of `node` may have.
size_t LargestFolded(const Program& program, const ProgramNode& node, Fold fold) {
  size_t bytes = 0;
  for (const Value& input : node.inputs) {
    if (program.nodes[input.node].op->kind == OpKind::kConst) bytes += program.spec(input).bytes();
  }
  return fold == Fold::kWeights ? std::max(bytes, kMaxFoldedBytes) : kMaxFoldedBytes;
}

bool Foldable(const Program& program, const ProgramNode& node, Fold fold) {
  if (node.op->kind != OpKind::kKernel && node.op->kind != OpKind::kView) return false;
  if (node.op->stateful || !node.control_inputs.empty() || node.outputs.empty() || node.inputs.empty()) return false;
  for (const TensorSpec& output : node.outputs) {
    if (output.bytes() > LargestFolded(program, node, fold)) return false;
  }
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (program.nodes[node.inputs[i].node].op->kind == OpKind::kConst) continue;
    if (!node.op->input_arg(static_cast<int>(i)).shape_only) return false;
  }
  return true;
}

std::vector<Tensor> ConstantInputs(const Program& program, const ProgramNode& node) {
  std::vector<Tensor> inputs;
  for (const Value& input : node.inputs) {
    const ProgramNode& producer = program.nodes[input.node];
    inputs.push_back(producer.op->kind == OpKind::kConst
                         ? producer.attrs.Get<Tensor>("value")
                         : Tensor::WithoutData(program.spec(input).dtype, program.spec(input).shape));
  }
  return inputs;
}

// Shapes that are known only now may show that nothing is summed or stretched. Reads of variables stay, because the
// variable may be updated between this node and the nodes that read it.
bool IsIdentity(const Program& program, const ProgramNode& node) {
  return node.op->identity_if_same_shape && node.control_inputs.empty() && !node.inputs.empty() &&
         program.spec(node.inputs[0]) == node.outputs[0] &&
         program.nodes[Root(program, node.inputs[0]).node].op->kind != OpKind::kVariable;
}

}  // namespace

absl::Status FoldConstants(Program& program, Fold fold) {
  for (auto& node : program.nodes) {
    DropControlsOnConstants(program, node);
    if (!Foldable(program, node, fold)) continue;
    const absl::StatusOr<std::vector<Tensor>> outputs = RunOp(*node.op, node.attrs, ConstantInputs(program, node));
    // An error would occur in the step as well, and is reported there if the node runs.
    if (!outputs.ok() || outputs->size() != 1) continue;
    node.op = &ConstantOp();
    node.inputs.clear();
    node.attrs = {{"T", (*outputs)[0].dtype()}, {"value", (*outputs)[0]}};
  }
  return Normalize(program);
}

absl::Status DropIdentities(Program& program) {
  const auto resolve = [&](Value& value) {
    while (IsIdentity(program, program.nodes[value.node])) value = program.nodes[value.node].inputs[0];
  };
  for (ProgramNode& node : program.nodes) {
    for (Value& input : node.inputs) resolve(input);
  }
  for (Value& fetch : program.fetches) resolve(fetch);
  return Normalize(program);
}

}  // namespace belfry
