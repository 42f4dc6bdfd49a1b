#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "ops/element_code.h"
#include "ops/elementwise/define_impl.h"
#include "ops/math.h"

namespace belfry::ops {

absl::StatusOr<std::vector<Shape>> SameShape(const ShapeArgs& args) { return std::vector<Shape>{args.inputs[0]}; }

absl::StatusOr<std::vector<Shape>> BroadcastShape(const ShapeArgs& args) {
  ASSIGN_OR_RETURN(Shape shape, BroadcastShapes(args.inputs[0], args.inputs[1]));
  return std::vector<Shape>{std::move(shape)};
}

OpDef UnaryOp(absl::string_view name, absl::Span<const DType> types, std::vector<KernelDef> kernels,
              UnaryGradient gradient, absl::string_view out) {
  OpDef op{.name = std::string(name),
           .inputs = {{.name = "x"}},
           .outputs = {{.name = "y", .type = std::string(out)}},
           .types = {{"T", types}},
           .shape = SameShape,
           .not_differentiable = gradient == nullptr,
           .elementwise = true,
           .element_code = ElementMap(absl::StrCat("functor::", name, "<{T}>{}")),
           .kernels = std::move(kernels)};
  if (out == "T") op.in_place = {{0, 0}};
  if (gradient != nullptr) {
    op.gradient = [gradient](const Scope& scope, const Node& node, absl::Span<const Output> dy) {
      return std::vector<Output>{gradient(scope, node.input(0), node.output(0), dy[0])};
    };
  }
  return op;
}

OpDef BinaryOp(absl::string_view name, absl::Span<const DType> types, std::vector<KernelDef> kernels,
               BinaryGradient gradient, absl::string_view out) {
  OpDef op{.name = std::string(name),
           .inputs = {{.name = "a"}, {.name = "b"}},
           .outputs = {{.name = "y", .type = std::string(out)}},
           .types = {{"T", types}},
           .shape = BroadcastShape,
           .not_differentiable = gradient == nullptr,
           .elementwise = true,
           .element_code = ElementMap(absl::StrCat("functor::", name, "<{T}>{}")),
           .kernels = std::move(kernels)};
  if (out == "T") op.in_place = {{0, 0}, {1, 0}};
  if (gradient != nullptr) {
    op.gradient = [gradient](const Scope& scope, const Node& node, absl::Span<const Output> dy) {
      const Output a = node.input(0), b = node.input(1);
      std::vector<Output> d = gradient(scope, a, b, node.output(0), dy[0]);
      return std::vector<Output>{SumLike(scope, d[0], a), SumLike(scope, d[1], b)};
    };
  }
  return op;
}

}  // namespace belfry::ops
