#include <utility>
#include <vector>

#include "framework/compiler/rewrite.h"
#include "ops/activation/activation_ops.h"
#include "ops/pooling/pooling_ops.h"

namespace belfry::ops {
namespace {

// Gradients that are dy or 0, depending on y.
bool IsMask(const ProgramNode& node) { return node.op->name == "ReluGrad" || node.op->name == "Relu6Grad"; }

}  // namespace

absl::Status MaskBeforePoolGradients(Program& program, const RewriteContext&) {
  const std::vector<int> uses = CountUses(program);
  for (ProgramNode& last : program.nodes) {
    if (!IsMask(last)) continue;
    const Value dy = last.inputs[relu_grad::kDy], y = last.inputs[relu_grad::kY];
    ProgramNode& first = program.nodes[dy.node];
    if (first.op->name != "MaxPoolGrad" || uses[dy.node] != 1) continue;
    const int pool = first.inputs[max_pool_grad::kWinners].node;
    const bool same = program.nodes[pool].op->name == "MaxPool" && program.nodes[pool].inputs[0] == y &&
                      program.nodes[pool].device == last.device && first.device == last.device;
    const Value pooled = {pool, 0}, gradient = first.inputs[max_pool_grad::kDy];
    if (!same || !first.control_inputs.empty() || !last.control_inputs.empty() ||
        program.spec(pooled).shape.elements() > program.spec(y).shape.elements()) {
      continue;
    }
    // The nodes change places, so that the order stays topological: `dy` is now the masked gradient.
    last.inputs = {first.inputs[max_pool_grad::kX], first.inputs[max_pool_grad::kWinners], dy};
    first.inputs = {gradient, pooled};  // dy, y
    std::swap(first.name, last.name);
    std::swap(first.op, last.op);
    std::swap(first.attrs, last.attrs);
    std::swap(first.source, last.source);
    first.outputs[0] = program.spec(pooled);
  }
  return Normalize(program);
}

}  // namespace belfry::ops
