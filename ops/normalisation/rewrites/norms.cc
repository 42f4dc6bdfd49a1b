#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "framework/base/memory/hash_table.h"
#include "framework/compiler/fusion_guard.h"
#include "framework/compiler/rewrite.h"
#include "ops/activation/activation_ops.h"
#include "ops/normalisation/normalisation_ops.h"

namespace belfry::ops {
namespace {

class NormFuser {
 public:
  NormFuser(Program& program, const RewriteContext& context)
      : program_(program), nodes_(program.nodes), context_(context), guard_(program) {}

  void Run() {
    for (size_t i = 0; i < nodes_.size(); ++i) {
      if (nodes_[i].op->name == "Relu") FuseRelu(static_cast<int>(i));
      if (nodes_[i].op->name == "Relu6") FuseRelu6(static_cast<int>(i));
    }
    for (size_t i = 0; i < nodes_.size(); ++i) {
      if (nodes_[i].op->name == "BatchNormGrad" && !FuseGradient(static_cast<int>(i))) FuseMask(static_cast<int>(i));
    }
    Redirect(program_, moved_, became_);
  }

 private:
  // Relu(BatchNorm(x, ...)), or Relu(BatchNorm(x, ...) + addend) with the norm on either side of the sum.
  void FuseRelu(int i) {
    const Value below = nodes_[i].inputs[0];
    if (IsNorm(below)) return FuseActivation(i, below.node, "BatchNormRelu");
    const ProgramNode& sum = nodes_[below.node];
    if (sum.op->name != "Add" || !guard_.Allows(below.node, i)) return;
    for (int side : {0, 1}) {
      const Value norm = sum.inputs[side], addend = sum.inputs[1 - side];
      if (!IsNorm(norm) || !guard_.Allows(norm.node, below.node) || ComesFrom(program_, addend.node, norm.node, fused_))
        continue;
      if (program_.spec(addend).shape != program_.spec(norm).shape) continue;
      const OpDef* op = FusedOp(context_, "BatchNormAddRelu", nodes_[norm.node], {&sum, &nodes_[i]});
      if (op != nullptr) return Become(i, norm.node, op, {addend});
    }
  }
  // Relu6(BatchNorm(x, ...)).
  void FuseRelu6(int i) {
    const Value below = nodes_[i].inputs[0];
    if (IsNorm(below)) FuseActivation(i, below.node, "BatchNormRelu6");
  }
  // Makes node i, an activation of `norm`, the op `name`.
  void FuseActivation(int i, int norm, absl::string_view name) {
    if (!guard_.Allows(norm, i)) return;
    const OpDef* op = FusedOp(context_, name, nodes_[norm], {&nodes_[i]});
    if (op != nullptr) Become(i, norm, op, {});
  }
  bool IsNorm(Value value) const { return value.index == batch_norm::kY && nodes_[value.node].op->name == "BatchNorm"; }

  // The ReLU's node becomes all of it. Nothing reads the normalisation once Redirect has run, so Normalize drops it.
  void Become(int i, int norm, const OpDef* op, const std::vector<Value>& more) {
    ProgramNode& node = nodes_[i];
    const ProgramNode& from = nodes_[norm];
    node.op = op;
    node.attrs = from.attrs;
    node.inputs = from.inputs;
    node.inputs.insert(node.inputs.end(), more.begin(), more.end());
    node.outputs = from.outputs;
    fused_[norm] = i;
    for (int output = 0; output < static_cast<int>(from.outputs.size()); ++output) moved_[{norm, output}] = {i, output};
  }

  // BatchNormGrad of what ReluGrad or Relu6Grad gives. The fused kernel computes the activation's input again from x,
  // so everything that it takes must be what the fused forward node took and gave.
  bool FuseGradient(int i) {
    namespace grad = batch_norm_grad;
    ProgramNode& node = nodes_[i];
    const Value x = node.inputs[grad::kX], dy = node.inputs[grad::kDy], scale = node.inputs[grad::kScale],
                mean = node.inputs[grad::kMean], variance = node.inputs[grad::kVariance];
    const ProgramNode& mask = nodes_[dy.node];
    const auto fused = fused_.find(mean.node);
    const bool six = mask.op->name == "Relu6Grad";
    if (fused == fused_.end() || (!six && mask.op->name != "ReluGrad") || !guard_.Allows(dy.node, i)) return false;
    const ProgramNode& forward = nodes_[fused->second];
    const bool same = forward.op->name == (six ? "BatchNormRelu6" : "BatchNormRelu") &&
                      mask.inputs[relu_grad::kY] == Value{fused->second, batch_norm::kY} &&
                      x == forward.inputs[batch_norm::kX] && scale == forward.inputs[batch_norm::kScale] &&
                      mean.index == batch_norm::kMean && variance == Value{mean.node, batch_norm::kVariance} &&
                      !node.attrs.Bool("fixed_statistics") &&
                      node.attrs.Float("epsilon") == forward.attrs.Float("epsilon") && forward.device == node.device;
    const Value slopes = mask.inputs[relu_grad::kDy];
    const ProgramNode& sum = nodes_[slopes.node];
    const bool adds = !six && OnGpu(node) && IsSumOfTwo(slopes, dy.node);
    const OpDef* op = adds ? FusedOp(context_, "BatchNormReluGradOfSum", node, {&mask, &sum})
                           : FusedOp(context_, six ? "BatchNormRelu6Grad" : "BatchNormReluGrad", node, {&mask});
    if (!same || op == nullptr) return false;
    node.op = op;
    node.attrs = forward.attrs;
    // In the order of BatchNormReluGrad: x, dy, scale, offset, mean, variance.
    node.inputs = {x, adds ? sum.inputs[0] : slopes, scale, forward.inputs[batch_norm::kOffset], mean, variance};
    if (adds) node.inputs.push_back(sum.inputs[1]);
    return true;
  }

  // True for the sum of two tensors, which is read by `reader` only and may become part of it. Kernels for CPUs take no
  // sums in: there, these are parts of other passes over memory.
  bool IsSumOfTwo(Value value, int reader) const {
    const ProgramNode& sum = nodes_[value.node];
    return (sum.op->name == "AddN" || sum.op->name == "Add") && sum.inputs.size() == 2 &&
           program_.spec(sum.inputs[0]).shape == program_.spec(sum.inputs[1]).shape &&
           guard_.Allows(value.node, reader);
  }
  bool OnGpu(const ProgramNode& node) const { return context_.devices.device(node.device).type() == "GPU"; }

  // BatchNormGrad of what ReluGrad gives, which others read, too: the mask's node becomes both. On CPUs Winograd's
  // kernels mask what they give at no cost.
  void FuseMask(int i) {
    namespace grad = batch_norm_grad;
    const ProgramNode& node = nodes_[i];
    const Value dy = node.inputs[grad::kDy];
    ProgramNode& mask = nodes_[dy.node];
    if (mask.op->name != "ReluGrad" || mask.device != node.device || !guard_.AllowsSooner(i)) return;
    if (node.attrs.Bool("fixed_statistics") || !guard_.AllowsSooner(dy.node)) return;
    if (!OnGpu(node)) return;
    for (const int input : {grad::kX, grad::kScale, grad::kMean, grad::kVariance}) {
      const int from = node.inputs[input].node;
      const auto fused = fused_.find(from);
      if ((fused == fused_.end() ? from : fused->second) > dy.node) return;
    }
    std::vector<Value> inputs = node.inputs;
    inputs[grad::kDy] = mask.inputs[relu_grad::kDy];
    inputs.push_back(mask.inputs[relu_grad::kY]);
    const ProgramNode& sum = nodes_[inputs[grad::kDy].node];
    const bool adds = IsSumOfTwo(inputs[grad::kDy], dy.node);
    const OpDef* op = adds ? FusedOp(context_, "BatchNormAddReluGradOfSum", node, {&mask, &sum})
                           : FusedOp(context_, "BatchNormAddReluGrad", node, {&mask});
    if (op == nullptr) return;
    if (adds) {
      inputs[grad::kDy] = sum.inputs[0];
      inputs.push_back(sum.inputs[1]);
    }
    BecomeMasked(i, dy.node, op, std::move(inputs));
  }

  // Makes node `mask` the gradient of node i, too, whose name it takes.
  void BecomeMasked(int i, int mask, const OpDef* op, std::vector<Value> inputs) {
    ProgramNode &node = nodes_[mask], &from = nodes_[i];
    node.op = op;
    node.attrs = {{"T", from.outputs[0].dtype}, {"U", from.outputs[1].dtype}, {"epsilon", from.attrs.Float("epsilon")}};
    node.inputs = std::move(inputs);
    node.outputs.insert(node.outputs.begin(), from.outputs.begin(), from.outputs.end());
    std::swap(node.name, from.name);
    std::swap(node.source, from.source);
    for (int output = 0; output < 3; ++output) moved_[{i, output}] = {mask, output};
    moved_[{mask, 0}] = {mask, 3};
    became_[i] = mask;
  }

  Program& program_;
  std::vector<ProgramNode>& nodes_;
  const RewriteContext& context_;
  const FusionGuard guard_;
  HashMap<int, int> fused_;      // by normalisation: what it became part of
  HashMap<int, int> became_;     // by gradient: the mask that it became part of
  HashMap<Value, Value> moved_;  // by output: the one that has taken its place
};

}  // namespace

absl::Status FuseNorms(Program& program, const RewriteContext& context) {
  NormFuser(program, context).Run();
  return Normalize(program);
}

}  // namespace belfry::ops
