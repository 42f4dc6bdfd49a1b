#include <algorithm>

#include "absl/strings/str_cat.h"
#include "framework/base/alignment.h"
#include "framework/base/status.h"
#include "ops/array.h"
#include "ops/copy/copy_impl.h"
#include "ops/copy/copy_ops.h"

namespace belfry::ops {
namespace {

absl::Status ElementsDiffer(const Shape& from, const Shape& to) {
  return absl::InvalidArgumentError(
      absl::StrCat("cannot reshape ", from.ToString(), " to ", to.ToString(), ": the numbers of elements differ"));
}

absl::StatusOr<std::vector<Shape>> ReshapeShape(const ShapeArgs& args) {
  const Shape& from = args.inputs[0];
  Shape to = args.attrs.Get<Shape>("shape");
  const auto unknown = std::count(to.dims().begin(), to.dims().end(), Shape::kUnknown);
  if (unknown > 1) {
    return absl::InvalidArgumentError(absl::StrCat("cannot reshape to ", to.ToString(),
                                                   ": at most one extent may be -1 (ReshapeLike takes any shape)"));
  }
  if (!from.known()) return std::vector<Shape>{to};
  if (unknown == 0) {
    if (from.elements() != to.elements()) return ElementsDiffer(from, to);
    return std::vector<Shape>{to};
  }
  const auto axis =
      static_cast<int>(std::find(to.dims().begin(), to.dims().end(), Shape::kUnknown) - to.dims().begin());
  const int64_t others = to.Remove(axis).elements();
  if (others == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot reshape to ", to.ToString(), ": next to an extent of 0, the unknown one is ambiguous"));
  }
  if (from.elements() % others != 0) return ElementsDiffer(from, to);
  to.set_dim(axis, from.elements() / others);
  return std::vector<Shape>{to};
}

absl::StatusOr<std::vector<Shape>> ReshapeLikeShape(const ShapeArgs& args) {
  const Shape &from = args.inputs[0], &to = args.inputs[1];
  if (from.known() && to.known() && from.elements() != to.elements()) return ElementsDiffer(from, to);
  return std::vector<Shape>{to};
}

absl::StatusOr<std::vector<Shape>> ExpandDimsShape(const ShapeArgs& args) {
  ASSIGN_OR_RETURN(const int axis, CanonicalAxis(args.attrs.Int("axis"), args.inputs[0].rank() + 1));
  return std::vector<Shape>{args.inputs[0].Insert(axis, 1)};
}

absl::StatusOr<std::vector<Shape>> SqueezeShape(const ShapeArgs& args) {
  const Shape& from = args.inputs[0];
  const std::vector<int64_t>& axes = args.attrs.Ints("axes");
  if (axes.empty() && !from.known()) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot tell which extents of ", from.ToString(), " are 1; specify the axes to remove"));
  }
  std::vector<bool> removed(from.rank());
  for (int axis = 0; axes.empty() && axis < from.rank(); ++axis) removed[axis] = from[axis] == 1;
  for (int64_t given : axes) {
    ASSIGN_OR_RETURN(const int axis, CanonicalAxis(given, from.rank()));
    if (from[axis] != 1 && from[axis] != Shape::kUnknown) {
      return absl::InvalidArgumentError(
          absl::StrCat("cannot remove axis ", given, " of ", from.ToString(), ", whose extent is not 1"));
    }
    removed[axis] = true;
  }
  std::vector<int64_t> dims;
  for (int axis = 0; axis < from.rank(); ++axis) {
    if (!removed[axis]) dims.push_back(from[axis]);
  }
  return std::vector<Shape>{Shape(absl::MakeConstSpan(dims))};
}

absl::StatusOr<std::vector<Shape>> FlatSliceShape(const ShapeArgs& args) {
  const int64_t begin = args.attrs.Int("begin"), size = args.attrs.Int("size");
  const Shape& from = args.inputs[0];
  if (begin < 0 || size < 0 || (from.known() && begin > from.elements() - size)) {
    return absl::InvalidArgumentError(
        absl::StrCat("elements [", begin, ", ", begin + size, ") are not in the input's shape ", from.ToString()));
  }
  const auto aligned = static_cast<int64_t>(kAlignment / SizeOf(args.dtypes[0]));
  if (begin % aligned != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("begin is ", begin, ", but must be a multiple of ", aligned, " (", kAlignment, " bytes)"));
  }
  return std::vector<Shape>{{size}};
}

std::vector<Output> FlatSliceBack(const Scope& scope, const Node& node, absl::Span<const Output> dy) {
  const Output x = node.input(0);
  if (!x.shape().known()) {
    scope.Fail(absl::UnimplementedError("the gradient of FlatSlice needs an input of known shape"));
    return {Output()};
  }
  const int64_t begin = node.attrs().Int("begin"), end = begin + node.attrs().Int("size");
  return {ReshapeLike(scope, Pad(scope, dy[0], {{begin, x.shape().elements() - end}}), x)};
}

std::vector<Output> ReshapeBack(const Scope& scope, const Node& node, absl::Span<const Output> dy) {
  std::vector<Output> dx(node.inputs().size());
  dx[0] = ReshapeLike(scope, dy[0], node.input(0));
  return dx;
}

OpDef View(absl::string_view name, ShapeFunction shape, GradientFunction gradient) {
  return {.name = std::string(name),
          .inputs = {{.name = "x"}},
          .outputs = {{.name = "y"}},
          .types = {{"T", kAnyType}},
          .shape = std::move(shape),
          .gradient = std::move(gradient),
          .kind = OpKind::kView};
}

}  // namespace

Output Identity(OpScope scope, Output x) { return scope.Add("Identity", {x}); }
Output StopGradient(OpScope scope, Output x) { return scope.Add("StopGradient", {x}); }
Output Reshape(OpScope scope, Output x, const Shape& shape) { return scope.Add("Reshape", {x}, {{"shape", shape}}); }
Output ReshapeLike(OpScope scope, Output x, Output like) { return scope.Add("ReshapeLike", {x, like}); }
Output ExpandDims(OpScope scope, Output x, int64_t axis) { return scope.Add("ExpandDims", {x}, {{"axis", axis}}); }
Output Squeeze(OpScope scope, Output x, std::vector<int64_t> axes) {
  return scope.Add("Squeeze", {x}, {{"axes", std::move(axes)}});
}

Output FlatSlice(OpScope scope, Output x, int64_t begin, int64_t size) {
  return scope.Add("FlatSlice", {x}, {{"begin", begin}, {"size", size}});
}

void RegisterViewOps(OpRegistry& registry) {
  registry.Add(View("Identity", UnchangedShape,
                    [](const Scope&, const Node&, absl::Span<const Output> dy) { return std::vector<Output>{dy[0]}; }));
  registry.Add(View("StopGradient", UnchangedShape,
                    [](const Scope&, const Node&, absl::Span<const Output>) { return std::vector<Output>{Output()}; }));
  OpDef reshape = View("Reshape", ReshapeShape, ReshapeBack);
  reshape.attrs = {{"shape", Shape(), true}};
  registry.Add(std::move(reshape));
  OpDef reshape_like = View("ReshapeLike", ReshapeLikeShape, ReshapeBack);
  reshape_like.inputs.push_back({.name = "like", .type = "L", .shape_only = true});
  reshape_like.types.push_back({"L", kAnyType});
  registry.Add(std::move(reshape_like));
  OpDef expand = View("ExpandDims", ExpandDimsShape, ReshapeBack);
  expand.attrs = {{"axis", int64_t{0}, true}};
  registry.Add(std::move(expand));
  OpDef squeeze = View("Squeeze", SqueezeShape, ReshapeBack);
  squeeze.attrs = {{"axes", std::vector<int64_t>()}};
  registry.Add(std::move(squeeze));
  OpDef flat_slice = View("FlatSlice", FlatSliceShape, FlatSliceBack);
  flat_slice.attrs = {{"begin", int64_t{0}, true}, {"size", int64_t{0}, true}};
  registry.Add(WithRole(std::move(flat_slice), OpRole::kFlatSlice));
}

}  // namespace belfry::ops
