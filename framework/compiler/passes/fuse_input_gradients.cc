#include <utility>
#include <vector>

#include "framework/compiler/passes/fusion_guard.h"
#include "framework/compiler/passes/passes.h"

namespace belfry {
namespace {

class InputGradientFuser {
 public:
  InputGradientFuser(Program& program, const OpRegistry& registry, const DeviceSet& devices)
      : program_(program), registry_(registry), devices_(devices), joins_(program) {}

  void Run() {
    for (size_t i = 0; i < program_.nodes.size(); ++i) {
      if (program_.nodes[i].op->name == "ReluGrad") FuseMask(static_cast<int>(i));
    }
  }

 private:
  void FuseMask(int i) {
    const Value dy = program_.nodes[i].inputs[0];
    if (!joins_.Allows(dy.node, i)) return;
    if (IsConvolution(dy)) {
      Become(i, dy.node, "Conv2DBackpropInputReluGrad", {});
      return;
    }
    const ProgramNode& sum = program_.nodes[dy.node];
    if ((sum.op->name != "AddN" && sum.op->name != "Add") || sum.inputs.size() != 2) return;
    for (const int side : {0, 1}) {
      const Value gradient = sum.inputs[side], addend = sum.inputs[1 - side];
      if (!IsConvolution(gradient) || !joins_.Allows(gradient.node, dy.node)) continue;
      if (program_.spec(addend).shape != program_.spec(gradient).shape) continue;
      if (Become(i, gradient.node, "Conv2DBackpropInputAddReluGrad", {addend})) return;
    }
  }
  bool IsConvolution(Value value) const { return program_.nodes[value.node].op->name == "Conv2DBackpropInput"; }

  // The mask's node becomes all of it, under the name of the convolution's, whose work it mostly is.
  bool Become(int i, int convolution, absl::string_view name, const std::vector<Value>& more) {
    ProgramNode& from = program_.nodes[convolution];
    const OpDef* op = FusedOp(registry_, devices_, name, from);
    if (op == nullptr) return false;
    ProgramNode& node = program_.nodes[i];
    const Value y = node.inputs[1];
    node.op = op;
    node.attrs = from.attrs;
    node.inputs = from.inputs;
    node.inputs.push_back(y);
    node.inputs.insert(node.inputs.end(), more.begin(), more.end());
    std::swap(node.name, from.name);
    std::swap(node.source, from.source);
    return true;
  }

  Program& program_;
  const OpRegistry& registry_;
  const DeviceSet& devices_;
  const Joins joins_;
};

}  // namespace

absl::Status FuseInputGradients(Program& program, const OpRegistry& registry, const DeviceSet& devices) {
  InputGradientFuser(program, registry, devices).Run();
  return Normalize(program);
}

}  // namespace belfry
