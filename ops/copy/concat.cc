#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "ops/array.h"
#include "ops/copy/copy_impl.h"
#include "ops/copy/copy_ops.h"
#include "ops/copy/join_impl.h"

namespace belfry::ops {
namespace {

absl::Status Differ(size_t index, const Shape& shape, const Shape& first, absl::string_view allowed) {
  return absl::InvalidArgumentError(absl::StrCat("input ", index, " has shape ", shape.ToString(),
                                                 ", which does not match input 0's ", first.ToString(), allowed));
}

absl::StatusOr<std::vector<Shape>> ConcatShape(const ShapeArgs& args) {
  Shape whole = args.inputs[0];
  ASSIGN_OR_RETURN(const int axis, CanonicalAxis(args.attrs.Int("axis"), whole.rank()));
  for (size_t i = 1; i < args.inputs.size(); ++i) {
    Shape part = args.inputs[i];
    if (part.rank() != whole.rank()) return Differ(i, part, args.inputs[0], "");
    const int64_t extent = part[axis], sum = whole[axis];
    const bool known = extent != Shape::kUnknown && sum != Shape::kUnknown;
    part.set_dim(axis, sum);
    if (!whole.CompatibleWith(part)) {
      return Differ(i, args.inputs[i], args.inputs[0],
                    absl::StrCat("; only the extents of axis ", axis, " may differ"));
    }
    ASSIGN_OR_RETURN(whole, whole.Merge(part));
    whole.set_dim(axis, known ? sum + extent : Shape::kUnknown);
  }
  return std::vector<Shape>{whole};
}

absl::StatusOr<std::vector<Shape>> StackShape(const ShapeArgs& args) {
  Shape part = args.inputs[0];
  ASSIGN_OR_RETURN(const int axis, CanonicalAxis(args.attrs.Int("axis"), part.rank() + 1));
  for (size_t i = 1; i < args.inputs.size(); ++i) {
    if (!part.CompatibleWith(args.inputs[i])) return Differ(i, args.inputs[i], args.inputs[0], "");
    ASSIGN_OR_RETURN(part, part.Merge(args.inputs[i]));
  }
  return std::vector<Shape>{part.Insert(axis, static_cast<int64_t>(args.inputs.size()))};
}

absl::StatusOr<Kernel> MakeJoin(const KernelSpec& spec) {
  ASSIGN_OR_RETURN(const JoinPlan plan, PlanJoin(spec));
  const size_t size = SizeOf(spec.outputs[0].dtype);
  std::vector<StridedCopy> copies;
  int64_t column = 0;
  for (const int64_t columns : plan.columns) {
    ASSIGN_OR_RETURN(StridedCopy copy,
                     StridedCopy::Make(size, {{plan.rows, columns, plan.width}, {columns, 1, 1}}, 0, column));
    copies.push_back(std::move(copy));
    column += columns;
  }
  return Kernel{[copies = std::move(copies)](const KernelContext& context) {
    for (size_t i = 0; i < copies.size(); ++i) copies[i].Run(context.inputs[i], context.outputs[0]);
    return absl::OkStatus();
  }};
}

std::vector<Output> ConcatGrad(const Scope& scope, const Node& node, absl::Span<const Output> dy) {
  std::vector<Output> inputs = {dy[0]};
  inputs.insert(inputs.end(), node.inputs().begin(), node.inputs().end());
  std::vector<Output> dx = scope.AddAll("SplitLike", std::move(inputs), {{"axis", node.attrs().Int("axis")}});
  dx.resize(node.inputs().size());
  return dx;
}

std::vector<Output> StackGrad(const Scope& scope, const Node& node, absl::Span<const Output> dy) {
  std::vector<Output> dx = Unstack(scope, dy[0], node.attrs().Int("axis"), static_cast<int64_t>(node.inputs().size()));
  dx.resize(node.inputs().size());
  return dx;
}

OpDef Join(absl::string_view name, ShapeFunction shape, GradientFunction gradient) {
  return {.name = std::string(name),
          .inputs = {{.name = "values", .list = true}},
          .outputs = {{.name = "output"}},
          .types = {{"T", kAnyType}},
          .attrs = {{"axis", int64_t{0}, true}},
          .shape = std::move(shape),
          .gradient = std::move(gradient),
          .kernels = AnyTypeKernels(MakeJoin)};
}

absl::StatusOr<JoinPlan> PlanParts(const Attrs& attrs, const Shape& whole, absl::Span<const TensorSpec> parts) {
  ASSIGN_OR_RETURN(const int axis, CanonicalAxis(attrs.Int("axis"), whole.rank()));
  JoinPlan plan = {whole.elements(0, axis), whole.elements(axis, whole.rank()), {}};
  for (const TensorSpec& part : parts) plan.columns.push_back(plan.rows == 0 ? 0 : part.shape.elements() / plan.rows);
  return plan;
}

}  // namespace

absl::StatusOr<JoinPlan> PlanJoin(const KernelSpec& spec) {
  return PlanParts(spec.attrs, spec.outputs[0].shape, spec.inputs);
}
absl::StatusOr<JoinPlan> PlanSplit(const KernelSpec& spec) {
  return PlanParts(spec.attrs, spec.inputs[0].shape, spec.outputs);
}

Output Concat(OpScope scope, absl::Span<const Output> values, int64_t axis) {
  return scope.Add("Concat", {values.begin(), values.end()}, {{"axis", axis}});
}
Output Stack(OpScope scope, absl::Span<const Output> values, int64_t axis) {
  return scope.Add("Stack", {values.begin(), values.end()}, {{"axis", axis}});
}

void RegisterConcatOps(OpRegistry& registry) {
  registry.Add(Join("Concat", ConcatShape, ConcatGrad));
  registry.Add(Join("Stack", StackShape, StackGrad));
}

}  // namespace belfry::ops
