#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "framework/base/memory/hash_table.h"
#include "framework/compiler/rewrite.h"
#include "ops/convolution/conv2d_impl.h"
#include "ops/convolution/convolution_ops.h"

namespace belfry::ops {
namespace {

class FilterTurner {
 public:
  FilterTurner(Program& program, const RewriteContext& context)
      : program_(program), devices_(context.devices), transpose_(context.registry.Find("Transpose")) {}

  void Run() {
    const int count = static_cast<int>(program_.nodes.size());
    for (int i = 0; i < count; ++i) {
      if (!Turns(i)) continue;
      const Value filter = Turned(program_.nodes[i].inputs[1]);
      ProgramNode& node = program_.nodes[i];
      node.inputs[1] = filter;
      node.attrs.Set(kFilterKrsc, true);
      if (absl::StartsWith(node.op->name, "Conv2DBackpropFilter")) TurnBack(i);
    }
    const auto move = [&](Value& value) {
      if (const auto found = moved_.find(value); found != moved_.end()) value = found->second;
    };
    for (int i = 0; i < count; ++i) {
      for (Value& input : program_.nodes[i].inputs) move(input);
    }
    for (Value& fetch : program_.fetches) move(fetch);
  }

 private:
  bool Turns(int i) const {
    const ProgramNode& node = program_.nodes[i];
    const std::string& name = node.op->name;
    const bool convolves = name == "Conv2D" || name == "FusedConv2D" || absl::StartsWith(name, "Conv2DBackprop");
    if (!convolves || node.device < 0 || HasKrscFilter(node.attrs)) return false;
    Device& device = devices_.device(node.device);
    return device.type() == "GPU" && device.CompilesKernels() && IsOfVariable(node.inputs[1], node.device);
  }
  bool IsOfVariable(Value filter, int device) const {
    const ProgramNode& from = program_.nodes[filter.node];
    if (from.device != device || program_.spec(filter).shape.elements() == 0) return false;
    if (from.op->kind == OpKind::kVariable) return true;
    return from.op->name == "Cast" && from.control_inputs.empty() && IsOfVariable(from.inputs[0], device);
  }

  // A filter as [K, R, S, C / groups]. A conversion comes after the transposition, so that both are one kernel.
  Value Turned(Value filter) {
    if (const auto found = turned_.find(filter); found != turned_.end()) return found->second;
    Value turned;
    if (program_.nodes[filter.node].op->kind == OpKind::kVariable) {
      turned = Transposed(filter, program_.nodes[filter.node], {3, 0, 1, 2});
    } else {
      const Value from = Turned(program_.nodes[filter.node].inputs[0]);
      ProgramNode cast = program_.nodes[filter.node];
      cast.name = absl::StrCat(cast.name, "/krsc");
      cast.inputs = {from};
      cast.outputs[0].shape = program_.spec(from).shape;
      program_.nodes.push_back(std::move(cast));
      turned = {static_cast<int>(program_.nodes.size()) - 1, 0};
    }
    turned_[filter] = turned;
    return turned;
  }

  // Makes node i give the gradient of its turned filter, and its readers read that turned back.
  void TurnBack(int i) {
    const Shape turned = program_.spec(program_.nodes[i].inputs[1]).shape;
    program_.nodes[i].outputs[0].shape = turned;
    const ProgramNode node = program_.nodes[i];
    moved_[{i, 0}] = Transposed({i, 0}, node, {1, 2, 3, 0});
  }

  Value Transposed(Value value, const ProgramNode& like, std::vector<int64_t> perm) {
    const TensorSpec from = program_.spec(value);
    Shape shape = from.shape;
    for (int axis = 0; axis < 4; ++axis) shape.set_dim(axis, from.shape[static_cast<int>(perm[axis])]);
    program_.nodes.push_back({.name = absl::StrCat(like.name, "/transposed"),
                              .op = transpose_,
                              .attrs = {{"T", from.dtype}, {"perm", std::move(perm)}},
                              .inputs = {value},
                              .outputs = {{from.dtype, shape}},
                              .source = like.source,
                              .device = like.device,
                              .rank = like.rank});
    return {static_cast<int>(program_.nodes.size()) - 1, 0};
  }

  Program& program_;
  const DeviceSet& devices_;
  const OpDef* const transpose_;
  HashMap<Value, Value> turned_, moved_;  // by filter; by gradient
};

}  // namespace

absl::Status TurnFilters(Program& program, const RewriteContext& context) {
  FilterTurner(program, context).Run();
  return Normalize(program);
}

}  // namespace belfry::ops
