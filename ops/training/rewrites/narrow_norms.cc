#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/compiler/rewrite.h"
#include "ops/training/training_ops.h"

namespace belfry::ops {
namespace {

bool IsSixteenBit(DType dtype) { return dtype == DType::kFloat16 || dtype == DType::kBFloat16; }

class NormNarrower {
 public:
  NormNarrower(Program& program, const RewriteContext& context) : program_(program), context_(context) {}

  void Run() {
    const int count = static_cast<int>(program_.nodes.size());
    for (int i = 0; i < count; ++i) {
      const ProgramNode& node = program_.nodes[i];
      if (node.op->name != "GlobalNorm" || context_.devices.device(node.device).type() != "GPU") continue;
      if (!IsReplaced(context_, node)) Narrow(i);
    }
  }

 private:
  // The tensor of 16 bits whose elements, converted, are those of `value`; `value` itself if there is none.
  Value Unconverted(Value value) const {
    const ProgramNode& node = program_.nodes[Root(program_, value).node];
    if (node.op->name != "Cast" || !node.control_inputs.empty() || IsReplaced(context_, node)) return value;
    const TensorSpec &from = program_.spec(node.inputs[0]), &to = program_.spec(value);
    const bool whole = from.shape.elements() == to.shape.elements();
    // A variable might be updated before the norm is computed.
    const bool computed = program_.nodes[Root(program_, node.inputs[0]).node].op->kind == OpKind::kKernel;
    return whole && computed && IsSixteenBit(from.dtype) && to.dtype == DType::kFloat32 ? node.inputs[0] : value;
  }

  void Narrow(int index) {
    std::vector<Value> narrow, wide;
    for (const Value& input : program_.nodes[index].inputs) {
      const Value from = Unconverted(input);
      const bool joins = from != input && (narrow.empty() || DTypeOf(from) == DTypeOf(narrow[0]));
      (joins ? narrow : wide).push_back(joins ? from : input);
    }
    if (narrow.empty()) return;
    if (wide.empty()) {
      program_.nodes[index].attrs.Set("T", DTypeOf(narrow[0]));
      program_.nodes[index].inputs = std::move(narrow);
      return;
    }
    // The norm of both norms. Three kernels instead of one pay only if many conversions go.
    if (narrow.size() < 4) return;
    const Value of_narrow = AddNorm(index, "/narrow", std::move(narrow));
    const Value of_wide = AddNorm(index, "/wide", std::move(wide));
    program_.nodes[index].attrs.Set("T", DType::kFloat64);
    program_.nodes[index].inputs = {of_narrow, of_wide};
  }

  DType DTypeOf(Value value) const { return program_.spec(value).dtype; }

  Value AddNorm(int like, absl::string_view suffix, std::vector<Value> inputs) {
    const ProgramNode& node = program_.nodes[like];
    const DType dtype = DTypeOf(inputs[0]);
    ProgramNode added{.name = absl::StrCat(node.name, suffix),
                      .op = node.op,
                      .attrs = {{"T", dtype}, {"N", DType::kFloat64}},
                      .inputs = std::move(inputs),
                      .control_inputs = node.control_inputs,
                      .outputs = {{DType::kFloat64, Shape()}},
                      .source = node.source,
                      .device = node.device,
                      .rank = node.rank};
    program_.nodes.push_back(std::move(added));
    return {static_cast<int>(program_.nodes.size()) - 1, 0};
  }

  Program& program_;
  const RewriteContext& context_;
};

}  // namespace

absl::Status NarrowNorms(Program& program, const RewriteContext& context) {
  NormNarrower(program, context).Run();
  return Normalize(program);
}

}  // namespace belfry::ops
