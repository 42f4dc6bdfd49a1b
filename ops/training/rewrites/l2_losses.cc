#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/tensor.h"
#include "framework/compiler/fusion_guard.h"
#include "framework/compiler/rewrite.h"
#include "ops/training/training_ops.h"

namespace belfry::ops {
namespace {

class L2LossJoiner {
 public:
  L2LossJoiner(Program& program, const RewriteContext& context)
      : program_(program), context_(context), guard_(program) {}

  void Run() {
    const int count = static_cast<int>(program_.nodes.size());
    for (int i = 0; i < count; ++i) {
      const ProgramNode& node = program_.nodes[i];
      if (node.op->name != "AddN" || context_.devices.device(node.device).type() != "GPU") continue;
      if (const OpDef* op = FusedOp(context_, "L2Losses", node)) Join(i, op);
    }
  }

 private:
  struct Term {
    Value x;
    double factor = 1;
  };

  // The term L2Loss(x), or Scale(L2Loss(x)), that only `sum` reads.
  bool IsTerm(Value value, int sum, Term& term) const {
    if (!guard_.Allows(value.node, sum)) return false;
    const ProgramNode* node = &program_.nodes[value.node];
    int reader = sum;
    if (node->op->name == "Scale") {
      term.factor = node->attrs.Float("factor");
      reader = value.node;
      value = node->inputs[0];
      if (!guard_.Allows(value.node, reader)) return false;
      node = &program_.nodes[value.node];
    }
    if (node->op->name != "L2Loss") return false;
    term.x = node->inputs[0];
    return true;
  }

  // The terms become one, in the place of the first.
  void Join(int sum, const OpDef* op) {
    std::vector<Value> inputs, terms;
    std::vector<double> factors;
    int first = -1;
    for (const Value& input : program_.nodes[sum].inputs) {
      Term term;
      if (!IsTerm(input, sum, term)) {
        inputs.push_back(input);
        continue;
      }
      if (first < 0) first = static_cast<int>(inputs.size());
      terms.push_back(term.x);
      factors.push_back(term.factor);
    }
    if (terms.size() < 2) return;
    const ProgramNode& node = program_.nodes[sum];
    Tensor values(DType::kFloat64, {static_cast<int64_t>(factors.size())});
    std::copy(factors.begin(), factors.end(), values.data<double>());
    ProgramNode joined{.name = absl::StrCat(node.name, "/l2_losses"),
                       .op = op,
                       .attrs = {{"T", node.outputs[0].dtype}, {"factors", std::move(values)}},
                       .inputs = std::move(terms),
                       .outputs = node.outputs,
                       .source = node.source,
                       .device = node.device,
                       .rank = node.rank};
    inputs.insert(inputs.begin() + first, Value{static_cast<int>(program_.nodes.size()), 0});
    program_.nodes[sum].inputs = std::move(inputs);
    program_.nodes.push_back(std::move(joined));
  }

  Program& program_;
  const RewriteContext& context_;
  const FusionGuard guard_;
};

}  // namespace

absl::Status JoinL2Losses(Program& program, const RewriteContext& context) {
  L2LossJoiner(program, context).Run();
  return Normalize(program);
}

}  // namespace belfry::ops
