#include <algorithm>

#include "framework/graph/infer.h"
#include "framework/runtime/passes.h"

namespace belfry {
namespace {

// The activations that the fused ops know, as attribute "activation".
struct Activation {
  absl::string_view op, name;
};
constexpr Activation kActivations[] = {{"Relu", "relu"}, {"Relu6", "relu6"}};

class Fuser {
 public:
  Fuser(Program& program, const OpRegistry& registry, const DeviceSet& devices)
      : program_(program), registry_(registry), devices_(devices) {}

  void Run() {
    CountUses();
    for (size_t i = 0; i < program_.nodes.size(); ++i) {
      if (program_.nodes[i].op->name == "BiasAdd") FuseBias(static_cast<int>(i));
    }
    CountUses();
    for (size_t i = 0; i < program_.nodes.size(); ++i) {
      for (const Activation& activation : kActivations) {
        if (program_.nodes[i].op->name == activation.op) FuseActivation(static_cast<int>(i), activation.name);
      }
    }
    for (size_t i = 0; i < program_.nodes.size(); ++i) {
      if (program_.nodes[i].op->name == "BiasAddGrad") FuseBiasGradient(static_cast<int>(i));
    }
  }

 private:
  void CountUses() {
    uses_.assign(program_.nodes.size(), 0);
    const auto use = [&](int node) { ++uses_[node]; };
    for (const ProgramNode& node : program_.nodes) {
      for (const Value& input : node.inputs) use(input.node);
      for (int control : node.control_inputs) use(control);
    }
    for (const Value& fetch : program_.fetches) use(fetch.node);
    for (int target : program_.targets) use(target);
  }

  // The fused op, if its kernel exists where the node runs.
  const OpDef* Fused(absl::string_view name, const ProgramNode& node) const {
    const OpDef* op = registry_.Find(name);
    if (op == nullptr) return nullptr;
    const DType dtype = KernelDType(*node.op, node.attrs);
    return op->FindKernel(devices_.device(node.device).type(), dtype) == nullptr ? nullptr : op;
  }

  bool OnlyFeeds(int producer, const ProgramNode& user) const {
    return uses_[producer] == 1 && program_.nodes[producer].device == user.device;
  }

  // Gives `node` the fused op, with the attributes of `from` that it takes too.
  static void Become(ProgramNode& node, const OpDef* op, const ProgramNode& from, std::vector<Value> inputs) {
    Attrs attrs;
    for (const AttrDef& attr : op->attrs) {
      const AttrValue* value = from.attrs.Find(attr.name);
      attrs.Set(attr.name, value == nullptr ? attr.value : *value);
    }
    for (const TypeVar& type : op->types) attrs.Set(type.name, from.attrs.Type("T"));
    node.op = op;
    node.attrs = std::move(attrs);
    node.inputs = std::move(inputs);
    node.control_inputs.insert(node.control_inputs.end(), from.control_inputs.begin(), from.control_inputs.end());
  }

  void FuseBias(int i) {
    ProgramNode& bias = program_.nodes[i];
    const int before = bias.inputs[0].node;
    const ProgramNode& product = program_.nodes[before];
    if (!OnlyFeeds(before, bias)) return;
    if (product.op->name != "Conv2D" && product.op->name != "MatMul") return;
    const OpDef* fused = Fused(product.op->name == "Conv2D" ? "FusedConv2D" : "FusedMatMul", product);
    if (fused == nullptr || bias.outputs[0].shape.rank() != (product.op->name == "Conv2D" ? 4 : 2)) return;
    Become(bias, fused, product, {product.inputs[0], product.inputs[1], bias.inputs[1]});
  }

  void FuseActivation(int i, absl::string_view activation) {
    ProgramNode& node = program_.nodes[i];
    const int before = node.inputs[0].node;
    const ProgramNode& product = program_.nodes[before];
    if (!OnlyFeeds(before, node)) return;
    if (product.op->name != "FusedConv2D" && product.op->name != "FusedMatMul") return;
    if (product.attrs.String("activation") != "none") return;
    Become(node, product.op, product, product.inputs);
    node.attrs.Set("activation", std::string(activation));
  }

  // A convolution's filter gradient sums over the same positions as its bias gradient, and reads the same tensor.
  void FuseBiasGradient(int i) {
    ProgramNode& bias = program_.nodes[i];
    for (size_t k = 0; k < program_.nodes.size(); ++k) {
      ProgramNode& filter = program_.nodes[k];
      if (filter.op->name != "Conv2DBackpropFilter" || filter.device != bias.device) continue;
      const auto dy = static_cast<int>(filter.inputs.size()) - 1;
      if (filter.inputs[dy] != bias.inputs[0] || !bias.control_inputs.empty()) continue;
      const OpDef* fused = Fused("Conv2DBackpropFilterBias", filter);
      if (fused == nullptr) return;
      const ProgramNode copy = filter;
      const TensorSpec bias_gradient = bias.outputs[0];
      Become(filter, fused, copy, copy.inputs);
      filter.outputs.push_back(bias_gradient);
      Redirect({i, 0}, {static_cast<int>(k), 1});
      return;
    }
  }

  void Redirect(Value from, Value to) {
    for (ProgramNode& node : program_.nodes) {
      for (Value& input : node.inputs) {
        if (input == from) input = to;
      }
      std::replace(node.control_inputs.begin(), node.control_inputs.end(), from.node, to.node);
    }
    for (Value& fetch : program_.fetches) {
      if (fetch == from) fetch = to;
    }
    std::replace(program_.targets.begin(), program_.targets.end(), from.node, to.node);
  }

  Program& program_;
  const OpRegistry& registry_;
  const DeviceSet& devices_;
  std::vector<int> uses_;  // by node: inputs, control inputs, fetches and targets that name it
};

}  // namespace

absl::Status Fuse(Program& program, const OpRegistry& registry, const DeviceSet& devices) {
  Fuser(program, registry, devices).Run();
  return Normalize(program);
}

}  // namespace belfry
