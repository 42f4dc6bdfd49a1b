#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/compiler/fusion_guard.h"
#include "framework/compiler/rewrite.h"
#include "ops/normalisation/normalisation_ops.h"

namespace belfry::ops {
namespace {

class FilterNormFolder {
 public:
  FilterNormFolder(Program& program, const RewriteContext& context)
      : program_(program), context_(context), guard_(program) {}

  void Run() {
    const int count = static_cast<int>(program_.nodes.size());
    for (int i = 0; i < count; ++i) {
      if (program_.nodes[i].op->name == "BatchNormInference") Fold(i);
    }
  }

 private:
  // The op of a convolution, or of a product with weights [rows, channels], that also adds a bias; empty for other
  // nodes.
  static absl::string_view WithBias(const ProgramNode& node) {
    if (node.op->name == "Conv2D") return "FusedConv2D";
    const bool weights =
        node.op->name == "MatMul" && node.outputs[0].shape.rank() == 2 && node.attrs.Bool("transpose_b") == false;
    return weights ? "FusedMatMul" : "";
  }

  // With weights in 16 bits, a factor in them would cost as much precision again.
  void Fold(int i) {
    namespace norm = batch_norm_inference;
    const ProgramNode node = program_.nodes[i];
    const int before = node.inputs[norm::kX].node;
    const ProgramNode& product = program_.nodes[before];
    const absl::string_view name = WithBias(product);
    if (name.empty() || context_.devices.device(node.device).type() != "CPU" || !guard_.Allows(before, i)) return;
    if (node.attrs.Type("T") != node.attrs.Type("U")) return;
    const OpDef* const fused = FusedOp(context_, name, product, {&node});
    const OpDef* const filter = context_.registry.Find("BatchNormFilter");
    const OpDef* const bias = context_.registry.Find("BatchNormBias");
    if (fused == nullptr || filter == nullptr || bias == nullptr) return;
    Attrs attrs;
    for (const AttrDef& attr : fused->attrs) {
      const AttrValue* const value = product.attrs.Find(attr.name);
      attrs.Set(attr.name, value == nullptr ? attr.value : *value);
    }
    attrs.Set("T", node.attrs.Type("T"));
    const Value x = product.inputs[0], weights = product.inputs[1];
    const Value scale = node.inputs[norm::kScale], variance = node.inputs[norm::kVariance];
    const Value folded = AddLike(node, "filter", filter, {weights, scale, variance}, program_.spec(weights));
    const Value added =
        AddLike(node, "bias", bias, {scale, node.inputs[norm::kOffset], node.inputs[norm::kMean], variance},
                program_.spec(scale));
    ProgramNode& becomes = program_.nodes[i];
    becomes.op = fused;
    becomes.attrs = std::move(attrs);
    becomes.inputs = {x, folded, added};
  }

  Value AddLike(const ProgramNode& norm, absl::string_view suffix, const OpDef* op, std::vector<Value> inputs,
                const TensorSpec& output) {
    program_.nodes.push_back({.name = absl::StrCat(norm.name, "/", suffix),
                              .op = op,
                              .attrs = {{"T", output.dtype}, {"epsilon", norm.attrs.Float("epsilon")}},
                              .inputs = std::move(inputs),
                              .outputs = {output},
                              .source = norm.source,
                              .device = norm.device,
                              .rank = norm.rank});
    return {static_cast<int>(program_.nodes.size()) - 1, 0};
  }

  Program& program_;
  const RewriteContext& context_;
  const FusionGuard guard_;
};

}  // namespace

absl::Status FoldNormsIntoFilters(Program& program, const RewriteContext& context) {
  FilterNormFolder(program, context).Run();
  return Normalize(program);
}

}  // namespace belfry::ops
