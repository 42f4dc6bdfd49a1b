#include "framework/compiler/fusion_guard.h"

#include "absl/algorithm/container.h"
#include "framework/graph/infer.h"

namespace belfry {

FusionGuard::FusionGuard(const Program& program)
    : nodes_(program.nodes), awaited_(nodes_.size(), 0), late_(nodes_.size(), 0) {
  // Inputs come before their users, so one pass carries lateness all the way down.
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const ProgramNode& node = nodes_[i];
    absl::c_for_each(node.inputs, [&](Value value) { ++uses_[value]; });
    if (node.op->kind == OpKind::kAllReduce) late_[i] = 1;
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      if (InputArg(node, static_cast<int>(k)).ref || late_[node.inputs[k].node] != 0) late_[i] = 1;
    }
    for (int control : node.control_inputs) {
      if (late_[control] != 0) late_[i] = 1;
      awaited_[control] = 1;
    }
  }
  for (const Value& fetch : program.fetches) ++uses_[fetch];
  for (int target : program.targets) awaited_[target] = 1;
}

bool FusionGuard::Allows(int producer, int user) const {
  const ProgramNode& node = nodes_[producer];
  return Readers({producer, 0}) == 1 && awaited_[producer] == 0 && node.device == nodes_[user].device &&
         node.control_inputs.empty() && nodes_[user].control_inputs.empty() && late_[user] == 0;
}

int FusionGuard::Readers(Value value) const {
  const auto uses = uses_.find(value);
  return uses == uses_.end() ? 0 : uses->second;
}

bool FusionGuard::AllowsSooner(int node) const { return nodes_[node].control_inputs.empty() && late_[node] == 0; }

}  // namespace belfry
