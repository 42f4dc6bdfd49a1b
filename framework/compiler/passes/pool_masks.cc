#include <utility>
#include <vector>

#include "framework/compiler/passes/passes.h"

namespace belfry {
namespace {

// Gradients that are dy or 0, by what y is.
bool IsMask(const ProgramNode& node) { return node.op->name == "ReluGrad" || node.op->name == "Relu6Grad"; }

}  // namespace

absl::Status MaskBeforePoolGradients(Program& program) {
  const std::vector<int> uses = CountUses(program);
  for (ProgramNode& last : program.nodes) {
    if (!IsMask(last)) continue;
    const Value y = last.inputs[1];
    ProgramNode& first = program.nodes[last.inputs[0].node];
    if (first.op->name != "MaxPoolGrad" || uses[last.inputs[0].node] != 1) continue;
    const int pool = first.inputs[1].node;
    const bool same = program.nodes[pool].op->name == "MaxPool" && program.nodes[pool].inputs[0] == y &&
                      program.nodes[pool].device == last.device && first.device == last.device;
    const Value pooled = {pool, 0}, gradient = first.inputs[2];
    if (!same || !first.control_inputs.empty() || !last.control_inputs.empty() ||
        program.spec(pooled).shape.elements() > program.spec(y).shape.elements()) {
      continue;
    }
    // The nodes change places, so that the order stays topological.
    const Value masked = last.inputs[0];
    last.inputs = {first.inputs[0], first.inputs[1], masked};
    first.inputs = {gradient, pooled};
    std::swap(first.name, last.name);
    std::swap(first.op, last.op);
    std::swap(first.attrs, last.attrs);
    std::swap(first.source, last.source);
    first.outputs[0] = program.spec(pooled);
  }
  return Normalize(program);
}

}  // namespace belfry
