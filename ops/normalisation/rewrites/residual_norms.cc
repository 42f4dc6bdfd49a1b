#include <string>
#include <utility>
#include <vector>

#include "framework/base/memory/hash_table.h"
#include "framework/base/status.h"
#include "framework/compiler/fusion_guard.h"
#include "framework/compiler/rewrite.h"
#include "ops/normalisation/normalisation_ops.h"

namespace belfry::ops {
namespace {

class ResidualNormFuser {
 public:
  ResidualNormFuser(Program& program, const RewriteContext& context)
      : program_(program), nodes_(program.nodes), context_(context) {}

  absl::Status Run() {
    const FusionGuard norms(program_);
    for (int i = 0; i < static_cast<int>(nodes_.size()); ++i) {
      const std::string& op = nodes_[i].op->name;
      if (context_.devices.device(nodes_[i].device).type() != "GPU") continue;
      if (op == "LayerNorm" || op == "RmsNorm") FuseNorm(norms, i);
    }
    Redirect(program_, values_, replaced_);
    RETURN_IF_ERROR(Normalize(program_));
    values_.clear();
    replaced_.clear();
    const FusionGuard gradients(program_);
    for (int i = 0; i < static_cast<int>(nodes_.size()); ++i) {
      const std::string& op = nodes_[i].op->name;
      if (context_.devices.device(nodes_[i].device).type() != "GPU") continue;
      if (op == "Add" || op == "AddN") FuseGradient(gradients, i);
    }
    Redirect(program_, values_, replaced_);
    return Normalize(program_);
  }

 private:
  // The addition gives the norm of its sum too, as output 1. The norm's other inputs are there before, and wait for no
  // write of what is added.
  void FuseNorm(const FusionGuard& guard, int i) {
    const ProgramNode& norm = nodes_[i];
    const int before = norm.inputs[0].node;
    ProgramNode& sum = nodes_[before];
    if (sum.op->name != "Add" || sum.device != norm.device || !norm.control_inputs.empty()) return;
    if (!SameShapes(sum)) return;
    const OpDef* const op = FusedOp(context_, "Add" + norm.op->name, norm, {&sum});
    if (op == nullptr) return;
    for (size_t k = 1; k < norm.inputs.size(); ++k) {
      if (!guard.AllowsSooner(norm.inputs[k].node) || ComesFrom(program_, norm.inputs[k].node, before, replaced_))
        return;
    }
    sum.inputs.insert(sum.inputs.end(), norm.inputs.begin() + 1, norm.inputs.end());
    sum.op = op;
    sum.attrs = norm.attrs;
    sum.outputs.push_back(norm.outputs[0]);
    values_[{i, 0}] = {before, 1};
    replaced_[i] = before;
  }

  // The gradient of a norm, and the sum of it and that of the residual, which nothing of the norm's gradient gives.
  void FuseGradient(const FusionGuard& guard, int i) {
    const ProgramNode& sum = nodes_[i];
    if (sum.inputs.size() != 2 || !sum.control_inputs.empty() || !SameShapes(sum)) return;
    for (const int side : {0, 1}) {
      const Value dx = sum.inputs[side], addend = sum.inputs[1 - side];
      ProgramNode& gradient = nodes_[dx.node];
      const std::string& name = gradient.op->name;
      if (dx.index != 0 || (name != "LayerNormGrad" && name != "RmsNormGrad")) continue;
      if (gradient.device != sum.device || guard.Readers(dx) != 1 ||
          ComesFrom(program_, addend.node, dx.node, replaced_))
        continue;
      // The gradient must not wait for a write of what it reads, or for a collective, because of what is added.
      if (guard.AllowsSooner(dx.node) && !guard.AllowsSooner(addend.node)) continue;
      const std::string fused = name.substr(0, name.size() - 4) + "AddGrad";
      const OpDef* const op = FusedOp(context_, fused, gradient, {&sum});
      if (op == nullptr) continue;
      gradient.inputs.push_back(addend);
      gradient.op = op;
      values_[{i, 0}] = dx;
      replaced_[i] = dx.node;
      return;
    }
  }

  bool SameShapes(const ProgramNode& sum) const {
    return program_.spec(sum.inputs[0]).shape == program_.spec(sum.inputs[1]).shape;
  }

  Program& program_;
  std::vector<ProgramNode>& nodes_;
  const RewriteContext& context_;
  HashMap<Value, Value> values_;  // by output of a node that became part of another: the output that replaces it
  HashMap<int, int> replaced_;    // the same, by node
};

}  // namespace

absl::Status FuseResidualNorms(Program& program, const RewriteContext& context) {
  return ResidualNormFuser(program, context).Run();
}

}  // namespace belfry::ops
