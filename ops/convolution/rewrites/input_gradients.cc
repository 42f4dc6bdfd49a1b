#include <utility>
#include <vector>

#include "framework/compiler/fusion_guard.h"
#include "framework/compiler/rewrite.h"
#include "ops/activation/activation_ops.h"
#include "ops/convolution/convolution_ops.h"

namespace belfry::ops {
namespace {

class InputGradientFuser {
 public:
  InputGradientFuser(Program& program, const RewriteContext& context)
      : program_(program), context_(context), guard_(program) {}

  void Run() {
    for (size_t i = 0; i < program_.nodes.size(); ++i) {
      if (program_.nodes[i].op->name == "ReluGrad") FuseMask(static_cast<int>(i));
    }
  }

 private:
  // ReluGrad(Conv2DBackpropInput), or of a sum of two in which that is one addend.
  void FuseMask(int i) {
    const Value dy = program_.nodes[i].inputs[relu_grad::kDy];
    if (!guard_.Allows(dy.node, i)) return;
    if (IsConvolution(dy)) {
      const OpDef* op = FusedOp(context_, "Conv2DBackpropInputReluGrad", program_.nodes[dy.node], {&program_.nodes[i]});
      if (op != nullptr) Become(i, dy.node, op, {});
      return;
    }
    const ProgramNode& sum = program_.nodes[dy.node];
    if ((sum.op->name != "AddN" && sum.op->name != "Add") || sum.inputs.size() != 2) return;
    for (const int side : {0, 1}) {
      const Value gradient = sum.inputs[side], addend = sum.inputs[1 - side];
      if (!IsConvolution(gradient) || !guard_.Allows(gradient.node, dy.node)) continue;
      if (program_.spec(addend).shape != program_.spec(gradient).shape) continue;
      const OpDef* op = FusedOp(context_, "Conv2DBackpropInputAddReluGrad", program_.nodes[gradient.node],
                                {&sum, &program_.nodes[i]});
      if (op != nullptr) return Become(i, gradient.node, op, {addend});
    }
  }
  bool IsConvolution(Value value) const { return program_.nodes[value.node].op->name == "Conv2DBackpropInput"; }

  // The mask's node becomes all of it. It takes the name of the convolution's node, because that is most of the work.
  void Become(int i, int convolution, const OpDef* op, const std::vector<Value>& more) {
    ProgramNode& from = program_.nodes[convolution];
    ProgramNode& node = program_.nodes[i];
    const Value y = node.inputs[relu_grad::kY];
    node.op = op;
    node.attrs = from.attrs;
    node.inputs = from.inputs;
    node.inputs.push_back(y);
    node.inputs.insert(node.inputs.end(), more.begin(), more.end());
    std::swap(node.name, from.name);
    std::swap(node.source, from.source);
  }

  Program& program_;
  const RewriteContext& context_;
  const FusionGuard guard_;
};

}  // namespace

absl::Status FuseInputGradients(Program& program, const RewriteContext& context) {
  InputGradientFuser(program, context).Run();
  return Normalize(program);
}

}  // namespace belfry::ops
