#include <utility>

#include "framework/compiler/fusion_guard.h"
#include "framework/compiler/rewrite.h"
#include "ops/activation/activation_ops.h"
#include "ops/normalisation/normalisation_ops.h"

namespace belfry::ops {

absl::Status MaskLrnGradients(Program& program, const RewriteContext& context) {
  const FusionGuard guard(program);
  for (size_t i = 0; i < program.nodes.size(); ++i) {
    ProgramNode& mask = program.nodes[i];
    if (mask.op->name != "ReluGrad") continue;
    const Value dy = mask.inputs[relu_grad::kDy], y = mask.inputs[relu_grad::kY];
    ProgramNode& gradient = program.nodes[dy.node];
    if (gradient.op->name != "LRNGrad" || gradient.inputs[lrn_grad::kX] != y) continue;
    if (!guard.Allows(dy.node, static_cast<int>(i)) || IsReplaced(context, gradient)) continue;
    const OpDef* const op = FusedOp(context, "LRNGrad", gradient, {&mask});
    if (op == nullptr) continue;
    mask.op = op;
    mask.attrs = gradient.attrs;
    mask.attrs.Set("masked", true);
    mask.inputs = gradient.inputs;
    std::swap(mask.name, gradient.name);
    std::swap(mask.source, gradient.source);
  }
  return Normalize(program);
}

}  // namespace belfry::ops
