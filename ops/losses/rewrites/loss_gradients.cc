#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/memory/hash_table.h"
#include "framework/base/tensor.h"
#include "framework/compiler/fusion_guard.h"
#include "framework/compiler/rewrite.h"
#include "ops/losses/losses_ops.h"

namespace belfry::ops {
namespace {

// An input of a node.
struct Edge {
  int node;
  int input;
};

class LossGradientFuser {
 public:
  LossGradientFuser(Program& program, const RewriteContext& context)
      : program_(program), nodes_(program.nodes), context_(context), guard_(program) {}

  void Run() {
    const int count = static_cast<int>(nodes_.size());
    for (int i = 0; i < count; ++i) {
      const std::string& op = nodes_[i].op->name;
      if (op == "CrossEntropyGrad" || op == "SparseCrossEntropyGrad") Fuse(i);
    }
    Redirect(program_, moved_, became_);
  }

 private:
  // The loss's node takes the gradient of the loss too, and gives that of the logits in the place of `backprop`.
  void Fuse(int i) {
    const ProgramNode& gradient = nodes_[i];
    const Value dloss = gradient.inputs[0], backprop = gradient.inputs[1];
    const int loss = backprop.node;
    if (nodes_[loss].op->name != "SparseSoftmaxCrossEntropyWithLogits" || guard_.Readers(backprop) != 1) return;
    if (gradient.inputs.size() > 2 && gradient.inputs[2] != nodes_[loss].inputs[1]) return;
    if (gradient.device != nodes_[loss].device) return;
    if (!gradient.control_inputs.empty() || !nodes_[loss].control_inputs.empty()) return;
    if (context_.devices.device(gradient.device).type() != "GPU") return;
    const OpDef* const op = FusedOp(context_, "SparseCrossEntropyWithGradient", nodes_[loss], {&gradient});
    if (op == nullptr) return;
    const std::optional<std::vector<Edge>> shapes = ShapesFrom(loss, dloss);
    if (!shapes.has_value()) return;
    nodes_[loss].op = op;
    nodes_[loss].inputs.push_back(dloss);
    moved_[{i, 0}] = {loss, 1};
    became_[i] = loss;
    for (const Edge& edge : *shapes) nodes_[edge.node].inputs[edge.input] = AnyOfShape(edge);
  }

  // Nothing if `value` is computed from what `loss` gives, or behind a write of a variable or a collective. Otherwise
  // the inputs, on the way to `value`, that are read for their shape only and come from `loss`.
  std::optional<std::vector<Edge>> ShapesFrom(int loss, Value value) const {
    std::vector<Edge> shapes;
    std::vector<int> open = {value.node};
    HashSet<int> seen;
    while (!open.empty()) {
      const int i = open.back();
      open.pop_back();
      if (i == loss || nodes_[i].op->kind == OpKind::kAllReduce) return std::nullopt;
      if (!seen.insert(i).second) continue;
      if (!nodes_[i].control_inputs.empty()) return std::nullopt;
      for (int k = 0; k < static_cast<int>(nodes_[i].inputs.size()); ++k) {
        const ArgDef& arg = InputArg(nodes_[i], k);
        if (arg.ref) return std::nullopt;
        if (arg.shape_only) {
          shapes.push_back({i, k});
        } else {
          open.push_back(nodes_[i].inputs[k].node);
        }
      }
    }
    return shapes;
  }

  // A constant like the input of that edge, so that its node need not wait for it.
  Value AnyOfShape(const Edge& edge) {
    const ProgramNode& node = nodes_[edge.node];
    const TensorSpec& spec = program_.spec(node.inputs[edge.input]);
    ProgramNode constant{.name = absl::StrCat(node.name, "/shape"),
                         .op = &ConstantOp(),
                         .attrs = {{"T", spec.dtype}, {"value", Tensor::Zeros(spec.dtype, spec.shape)}},
                         .outputs = {spec},
                         .source = node.source,
                         .device = node.device,
                         .rank = node.rank};
    nodes_.push_back(std::move(constant));
    return {static_cast<int>(nodes_.size()) - 1, 0};
  }

  Program& program_;
  std::vector<ProgramNode>& nodes_;
  const RewriteContext& context_;
  const FusionGuard guard_;
  HashMap<Value, Value> moved_;
  HashMap<int, int> became_;
};

}  // namespace

absl::Status FuseLossGradients(Program& program, const RewriteContext& context) {
  LossGradientFuser(program, context).Run();
  return Normalize(program);
}

}  // namespace belfry::ops
