#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "framework/base/memory/hash_table.h"
#include "framework/compiler/fusion_guard.h"
#include "framework/compiler/rewrite.h"
#include "ops/activation/activation_ops.h"
#include "ops/activation/epilogue_impl.h"

namespace belfry::ops {
namespace {

// A convolution or a product of matrices, and what it becomes with a bias after it.
struct Product {
  absl::string_view op, fused;
  int rank;  // of its result
};
constexpr Product kProducts[] = {{"Conv2D", "FusedConv2D", 4}, {"MatMul", "FusedMatMul", 2}};

const Product* FindProduct(absl::string_view Product::*name, const ProgramNode& node) {
  const auto* const found = absl::c_find_if(kProducts, [&](const Product& p) { return p.*name == node.op->name; });
  return found == std::end(kProducts) ? nullptr : found;
}

class BiasActivationFuser {
 public:
  BiasActivationFuser(Program& program, const RewriteContext& context) : program_(program), context_(context) {}

  void Run() {
    uses_ = CountUses(program_);
    for (size_t i = 0; i < program_.nodes.size(); ++i) {
      if (program_.nodes[i].op->name == "BiasAdd") FuseBias(static_cast<int>(i));
    }
    uses_ = CountUses(program_);
    for (size_t i = 0; i < program_.nodes.size(); ++i) {
      const auto* const activation = absl::c_find_if(kFusedActivations, [&](const FusedActivation& known) {
        const AttrValue* approximate = program_.nodes[i].attrs.Find("approximate");
        return known.op == program_.nodes[i].op->name &&
               (approximate == nullptr || std::get<bool>(*approximate) == known.approximate);
      });
      if (activation != std::end(kFusedActivations)) FuseActivation(static_cast<int>(i), *activation);
    }
    FuseBiasGradients();
  }

 private:
  // The fused node reads what `producer` read only when `user` runs. The two become one only if the user waits for
  // nothing else, so that no update of a variable comes in between.
  bool OnlyFeeds(int producer, const ProgramNode& user) const {
    const ProgramNode& node = program_.nodes[producer];
    return uses_[producer] == 1 && node.device == user.device &&
           std::includes(node.control_inputs.begin(), node.control_inputs.end(), user.control_inputs.begin(),
                         user.control_inputs.end());
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

  bool ReadsVariable(const ProgramNode& node) const {
    return absl::c_any_of(node.inputs, [&](const Value& input) {
      return program_.nodes[Root(program_, input).node].op->kind == OpKind::kVariable;
    });
  }
  // A variable, constant or feed waits for nothing; a computed value may wait for an update of what the product reads.
  bool IsSource(Value value) const {
    const Value root = Root(program_, value);
    const bool updated = program_.nodes[value.node].op->kind == OpKind::kKernel;
    return !updated && program_.nodes[root.node].op->kind != OpKind::kKernel;
  }

  // Conv2D or MatMul, then BiasAdd.
  void FuseBias(int i) {
    ProgramNode& bias = program_.nodes[i];
    const int before = bias.inputs[0].node;
    const ProgramNode& product = program_.nodes[before];
    if (!OnlyFeeds(before, bias)) return;
    const Product* known = FindProduct(&Product::op, product);
    if (known == nullptr || bias.outputs[0].shape.rank() != known->rank) return;
    const OpDef* fused = FusedOp(context_, known->fused, product, {&bias});
    if (fused == nullptr) return;
    if (ReadsVariable(product) && !IsSource(bias.inputs[1])) return;
    Become(bias, fused, product, {product.inputs[0], product.inputs[1], bias.inputs[1]});
  }

  // The fused product, then the activation.
  void FuseActivation(int i, const FusedActivation& activation) {
    ProgramNode& node = program_.nodes[i];
    const int before = node.inputs[0].node;
    const ProgramNode& product = program_.nodes[before];
    if (!OnlyFeeds(before, node)) return;
    if (FindProduct(&Product::fused, product) == nullptr) return;
    if (product.attrs.String("activation") != "none") return;
    if (FusedOp(context_, product.op->name, product, {&node}) == nullptr) return;
    const double alpha = activation.has_alpha ? node.attrs.Float("alpha") : 0;
    Become(node, product.op, product, product.inputs);
    node.attrs.Set("activation", std::string(activation.name));
    node.attrs.Set("alpha", alpha);
  }

  // The op that computes the gradient of a filter or of weights, and along with it the sums of the tensor that it
  // reads, dy; empty if there is none. cuBLASLt has one for products.
  absl::string_view WithBiasGradient(const ProgramNode& node) const {
    if (node.op->name == "Conv2DBackpropFilter") return "Conv2DBackpropFilterBias";
    const bool product = node.op->name == "MatMul" && node.outputs[0].shape.rank() == 2;
    if (!product || !node.attrs.Bool("transpose_a") || node.attrs.Bool("transpose_b")) return "";
    return context_.devices.device(node.device).type() == "GPU" ? "MatMulBiasGrad" : "";
  }

  // The gradient of a filter or of weights sums over the same positions as the bias gradient and reads the same tensor,
  // so one kernel computes both, and saves a read of that tensor.
  void FuseBiasGradients() {
    const auto size = static_cast<int>(program_.nodes.size());
    const FusionGuard guard(program_);
    HashMap<Value, int> filter_of;  // by the gradient that it reads
    for (int i = size - 1; i >= 0; --i) {
      const ProgramNode& node = program_.nodes[i];
      if (!WithBiasGradient(node).empty()) filter_of[node.inputs.back()] = i;
    }
    HashMap<int, int> replaced;       // bias gradient -> filter gradient
    HashMap<Value, Value> gradients;  // the same, as their outputs
    for (int i = 0; i < size; ++i) {
      if (program_.nodes[i].op->name != "BiasAddGrad") continue;
      const auto filter = filter_of.find(program_.nodes[i].inputs[0]);
      // A filter gradient that waits for a user of the bias gradient would then wait for itself.
      if (filter == filter_of.end() || ComesFrom(program_, filter->second, i, replaced)) continue;
      // Nor must the bias gradient wait for a write of a variable or for a collective for which only the filter's does.
      if (guard.AllowsSooner(i) && !guard.AllowsSooner(filter->second)) continue;
      if (!AddBiasGradient(filter->second, program_.nodes[i])) continue;
      replaced[i] = filter->second;
      gradients[{i, 0}] = {filter->second, 1};
    }
    Redirect(program_, gradients, replaced);
  }

  bool AddBiasGradient(int index, const ProgramNode& bias) {
    ProgramNode& filter = program_.nodes[index];
    const absl::string_view name = WithBiasGradient(filter);
    if (name.empty() || filter.device != bias.device || !bias.control_inputs.empty()) return false;
    const OpDef* fused = FusedOp(context_, name, filter, {&bias});
    if (fused == nullptr) return false;
    const ProgramNode copy = filter;
    Become(filter, fused, copy, copy.inputs);
    filter.outputs.push_back(bias.outputs[0]);
    return true;
  }

  Program& program_;
  const RewriteContext& context_;
  std::vector<int> uses_;
};

}  // namespace

absl::Status FuseBiasAndActivation(Program& program, const RewriteContext& context) {
  BiasActivationFuser(program, context).Run();
  return Normalize(program);
}

}  // namespace belfry::ops
