#include <algorithm>
#include <cstring>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "framework/compiler/eager.h"
#include "framework/compiler/passes/passes.h"

namespace belfry {
namespace {

// Folding trades a kernel for memory that a plan holds for ever, so only small results are folded.
constexpr size_t kLargestFolded = 4096;

bool Foldable(const Program& program, const ProgramNode& node) {
  if (node.op->kind != OpKind::kKernel && node.op->kind != OpKind::kView) return false;
  if (node.op->stateful || !node.control_inputs.empty() || node.outputs.empty() || node.inputs.empty()) return false;
  for (const TensorSpec& output : node.outputs) {
    if (output.bytes() > kLargestFolded) return false;
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

// Equal keys: nodes that compute the same.
std::string Key(const ProgramNode& node) {
  std::string key = absl::StrCat(node.op->name, "|", node.device, "|", AttrsKey(node.attrs));
  for (const Value& input : node.inputs) absl::StrAppend(&key, "|", input.node, ":", input.index);
  for (int control : node.control_inputs) absl::StrAppend(&key, "^", control);
  return key;
}

bool Mergeable(const ProgramNode& node) {
  if (node.op->stateful) return false;
  if (node.op->kind == OpKind::kConst) return node.outputs[0].bytes() <= kLargestFolded;
  return node.op->kind == OpKind::kKernel || node.op->kind == OpKind::kView;
}

// The shapes of a step may show only now that nothing is summed or stretched. A variable may be updated between the
// node that reads it and whoever reads that.
bool IsIdentity(const Program& program, const ProgramNode& node) {
  constexpr absl::string_view kOps[] = {"SumLike", "BroadcastLike", "BroadcastTo"};
  return absl::c_linear_search(kOps, node.op->name) && node.control_inputs.empty() && !node.inputs.empty() &&
         program.spec(node.inputs[0]) == node.outputs[0] &&
         program.nodes[Root(program, node.inputs[0]).node].op->kind != OpKind::kVariable;
}

}  // namespace

absl::Status FoldConstants(Program& program) {
  for (auto& node : program.nodes) {
    DropControlsOnConstants(program, node);
    if (!Foldable(program, node)) continue;
    const absl::StatusOr<std::vector<Tensor>> outputs = RunOp(*node.op, node.attrs, ConstantInputs(program, node));
    // What fails here fails when the step runs too, and is reported there if it is reached.
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

absl::Status MergeCommonSubexpressions(Program& program) {
  absl::flat_hash_map<std::string, int> first;
  std::vector<int> same(program.nodes.size());
  for (size_t i = 0; i < program.nodes.size(); ++i) {
    ProgramNode& node = program.nodes[i];
    for (Value& input : node.inputs) input.node = same[input.node];
    for (int& control : node.control_inputs) control = same[control];
    same[i] = Mergeable(node) ? first.try_emplace(Key(node), static_cast<int>(i)).first->second : static_cast<int>(i);
  }
  for (Value& fetch : program.fetches) fetch.node = same[fetch.node];
  for (int& target : program.targets) target = same[target];
  return Normalize(program);
}

}  // namespace belfry
