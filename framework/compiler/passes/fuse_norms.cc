#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "framework/compiler/passes/fusion_guard.h"
#include "framework/compiler/passes/passes.h"

namespace belfry {
namespace {

class NormFuser {
 public:
  NormFuser(Program& program, const OpRegistry& registry, const DeviceSet& devices)
      : program_(program), nodes_(program.nodes), registry_(registry), devices_(devices), joins_(program) {}

  void Run() {
    for (size_t i = 0; i < nodes_.size(); ++i) {
      if (nodes_[i].op->name == "Relu") FuseRelu(static_cast<int>(i));
    }
    for (size_t i = 0; i < nodes_.size(); ++i) {
      if (nodes_[i].op->name == "BatchNormGrad") FuseGradient(static_cast<int>(i));
    }
    Redirect();
  }

 private:
  // Whether `value` is computed from outputs of node `from`.
  bool ComesFrom(Value value, int from) const {
    std::vector<int> open = {value.node};
    std::vector<char> seen(nodes_.size(), 0);
    while (!open.empty()) {
      const int i = open.back();
      open.pop_back();
      if (i == from) return true;
      if (std::exchange(seen[i], 1) != 0) continue;
      if (const auto fused = fused_.find(i); fused != fused_.end()) open.push_back(fused->second);
      for (const Value& input : nodes_[i].inputs) open.push_back(input.node);
      open.insert(open.end(), nodes_[i].control_inputs.begin(), nodes_[i].control_inputs.end());
    }
    return false;
  }

  // Relu(BatchNorm(x, ...)) or Relu(BatchNorm(x, ...) + addend), and on either side of the sum.
  void FuseRelu(int i) {
    const Value below = nodes_[i].inputs[0];
    if (IsNorm(below)) {
      if (joins_.Allows(below.node, i)) Become(i, below.node, "BatchNormRelu", {});
      return;
    }
    const ProgramNode& sum = nodes_[below.node];
    if (sum.op->name != "Add" || !joins_.Allows(below.node, i)) return;
    for (int side : {0, 1}) {
      const Value norm = sum.inputs[side], addend = sum.inputs[1 - side];
      if (!IsNorm(norm) || !joins_.Allows(norm.node, below.node) || ComesFrom(addend, norm.node)) continue;
      if (program_.spec(addend).shape != program_.spec(norm).shape) continue;
      if (Become(i, norm.node, "BatchNormAddRelu", {addend})) return;
    }
  }
  bool IsNorm(Value value) const { return value.index == 0 && nodes_[value.node].op->name == "BatchNorm"; }

  // The ReLU's node becomes all of it; what is left of the normalisation goes.
  bool Become(int i, int norm, absl::string_view name, const std::vector<Value>& more) {
    const OpDef* op = FusedOp(registry_, devices_, name, nodes_[norm]);
    if (op == nullptr) return false;
    ProgramNode& node = nodes_[i];
    const ProgramNode& from = nodes_[norm];
    node.op = op;
    node.attrs = from.attrs;
    node.inputs = from.inputs;
    node.inputs.insert(node.inputs.end(), more.begin(), more.end());
    node.outputs = from.outputs;
    fused_[norm] = i;
    return true;
  }

  // The gradient of the normalisation under that of the ReLU.
  void FuseGradient(int i) {
    ProgramNode& node = nodes_[i];
    const ProgramNode& mask = nodes_[node.inputs[1].node];
    const auto fused = fused_.find(node.inputs[3].node);
    if (fused == fused_.end() || mask.op->name != "ReluGrad" || !joins_.Allows(node.inputs[1].node, i)) return;
    const ProgramNode& forward = nodes_[fused->second];
    const bool same = forward.op->name == "BatchNormRelu" && mask.inputs[1] == Value{fused->second, 0} &&
                      node.inputs[0] == forward.inputs[0] && node.inputs[2] == forward.inputs[1] &&
                      node.inputs[3].index == 1 && node.inputs[4] == Value{node.inputs[3].node, 2} &&
                      !node.attrs.Bool("fixed_statistics") &&
                      node.attrs.Float("epsilon") == forward.attrs.Float("epsilon") && forward.device == node.device;
    const OpDef* op = FusedOp(registry_, devices_, "BatchNormReluGrad", node);
    if (!same || op == nullptr) return;
    node.op = op;
    node.attrs = forward.attrs;
    node.inputs = {node.inputs[0], mask.inputs[0], node.inputs[2], forward.inputs[2], node.inputs[3], node.inputs[4]};
  }

  // Mean and variance are outputs of the fused node.
  void Redirect() {
    const auto move = [&](Value& value) {
      if (const auto fused = fused_.find(value.node); fused != fused_.end()) value.node = fused->second;
    };
    for (ProgramNode& node : nodes_) absl::c_for_each(node.inputs, move);
    absl::c_for_each(program_.fetches, move);
  }

  Program& program_;
  std::vector<ProgramNode>& nodes_;
  const OpRegistry& registry_;
  const DeviceSet& devices_;
  const Joins joins_;
  absl::flat_hash_map<int, int> fused_;  // by normalisation: what it became part of
};

}  // namespace

absl::Status FuseNorms(Program& program, const OpRegistry& registry, const DeviceSet& devices) {
  NormFuser(program, registry, devices).Run();
  return Normalize(program);
}

}  // namespace belfry
