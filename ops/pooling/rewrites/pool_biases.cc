#include "framework/compiler/rewrite.h"
#include "ops/pooling/pooling_ops.h"

namespace belfry::ops {

absl::Status SumBiasesBeforePoolGradients(Program& program, const RewriteContext& context) {
  for (ProgramNode& bias : program.nodes) {
    if (bias.op->name != "BiasAddGrad" || context.devices.device(bias.device).type() != "GPU") continue;
    const ProgramNode& pool = program.nodes[bias.inputs[0].node];
    if (pool.op->name != "MaxPoolGrad" || pool.device != bias.device) continue;
    if (!pool.control_inputs.empty() || IsReplaced(context, pool)) continue;
    const Value dy = pool.inputs[max_pool_grad::kDy];
    if (program.spec(dy).shape.elements() < pool.outputs[0].shape.elements()) bias.inputs[0] = dy;
  }
  return absl::OkStatus();
}

}  // namespace belfry::ops
