#include <utility>
#include <vector>

#include "framework/base/memory/hash_table.h"
#include "framework/compiler/fusion_guard.h"
#include "framework/compiler/rewrite.h"
#include "ops/cublas/matmul.h"
#include "ops/product/product_ops.h"

namespace belfry::ops {
namespace {

class ProductGeluFuser {
 public:
  ProductGeluFuser(Program& program, const RewriteContext& context)
      : program_(program), nodes_(program.nodes), context_(context), guard_(program) {}

  void Run() {
    for (int i = 0; i < static_cast<int>(nodes_.size()); ++i) {
      const AttrValue* const approximate = nodes_[i].attrs.Find("approximate");
      if (approximate == nullptr || !std::get<bool>(*approximate)) continue;
      if (context_.devices.device(nodes_[i].device).type() != "GPU") continue;
      if (nodes_[i].op->name == "Gelu") FuseGelu(i);
      if (nodes_[i].op->name == "GeluGrad") FuseGradient(i);
    }
    Redirect(program_, values_, replaced_);
  }

 private:
  // The product gives the activation as its output 1. Others may read the GELU's argument, its output 0.
  void FuseGelu(int i) {
    const ProgramNode& gelu = nodes_[i];
    const Value x = gelu.inputs[0];
    ProgramNode& product = nodes_[x.node];
    if (product.op->name != "FusedMatMul" || product.attrs.String("activation") != "none") return;
    if (product.device != gelu.device || !gelu.control_inputs.empty()) return;
    if (product.outputs[0].shape[1] % kUnitOfGelu != 0) return;
    const OpDef* const op = FusedOp(context_, "MatMulBiasGelu", product, {&gelu});
    if (op == nullptr) return;
    Become(product, op, product.attrs);
    product.outputs.push_back(gelu.outputs[0]);
    replaced_[i] = x.node;
    values_[{i, 0}] = {x.node, 1};
  }

  void FuseGradient(int i) {
    ProgramNode& gradient = nodes_[i];
    const Value dy = gradient.inputs[0];
    const ProgramNode& product = nodes_[dy.node];
    if (product.op->name != "MatMul" || product.outputs[0].shape.rank() != 2) return;
    if (product.outputs[0].shape[1] % kUnitOfGelu != 0 || !guard_.Allows(dy.node, i)) return;
    const OpDef* const op = FusedOp(context_, "MatMulGeluGrad", product, {&gradient});
    if (op == nullptr) return;
    gradient.inputs = {product.inputs[0], product.inputs[1], gradient.inputs[1]};
    Become(gradient, op, product.attrs);
  }

  static void Become(ProgramNode& node, const OpDef* op, const Attrs& product) {
    node.attrs = {{"T", product.Type("T")},
                  {"transpose_a", product.Bool("transpose_a")},
                  {"transpose_b", product.Bool("transpose_b")}};
    node.op = op;
  }

  Program& program_;
  std::vector<ProgramNode>& nodes_;
  const RewriteContext& context_;
  const FusionGuard guard_;
  HashMap<int, int> replaced_;    // by GELU: the product that gives it
  HashMap<Value, Value> values_;  // the same, by their outputs
};

}  // namespace

absl::Status FuseProductGelu(Program& program, const RewriteContext& context) {
  ProductGeluFuser(program, context).Run();
  return Normalize(program);
}

}  // namespace belfry::ops
