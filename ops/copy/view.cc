#include <algorithm>

#include "absl/strings/str_cat.h"
#include "framework/base/alignment.h"
#include "framework/base/status.h"
#include "ops/array.h"
#include "ops/copy/copy_impl.h"
#include "ops/copy/copy_ops.h"
#include "ops/copy/extents_impl.h"

namespace belfry::ops {
namespace {

absl::Status ElementsDiffer(const Shape& from, const Shape& to) {
  return absl::InvalidArgumentError(
      absl::StrCat("cannot reshape ", from.ToString(), " to ", to.ToString(), ": the numbers of elements differ"));
}

// The shape of `from` reshaped to `to`, whose extent along `axis` is inferred; -1: none is.
absl::StatusOr<std::vector<Shape>> Reshaped(const Shape& from, Shape to, int axis) {
  if (axis >= 0) to.set_dim(axis, Shape::kUnknown);
  if (!from.known() || (axis < 0 ? !to.known() : !to.Remove(axis).known())) return std::vector<Shape>{to};
  if (axis < 0) {
    if (from.elements() != to.elements()) return ElementsDiffer(from, to);
    return std::vector<Shape>{to};
  }
  const int64_t others = to.Remove(axis).elements();
  if (others == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot reshape to ", to.ToString(), ": next to an extent of 0, the unknown one is ambiguous"));
  }
  if (from.elements() % others != 0) return ElementsDiffer(from, to);
  to.set_dim(axis, from.elements() / others);
  return std::vector<Shape>{to};
}

absl::StatusOr<std::vector<Shape>> ReshapeShape(const ShapeArgs& args) {
  const Shape& to = args.attrs.Get<Shape>("shape");
  const auto unknown = std::find(to.dims().begin(), to.dims().end(), Shape::kUnknown);
  if (std::count(unknown, to.dims().end(), Shape::kUnknown) > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot reshape to ", to.ToString(),
                     ": at most one extent may be -1 (others can be those of a tensor: Extent::Of(x, 0))"));
  }
  return Reshaped(args.inputs[0], to, unknown == to.dims().end() ? -1 : static_cast<int>(unknown - to.dims().begin()));
}

// Attribute "inferred": the axis whose extent is inferred, or -1.
absl::StatusOr<std::vector<Shape>> ReshapeToShape(const ShapeArgs& args) {
  ASSIGN_OR_RETURN(Shape to, CarriedShape(args.inputs[1]));
  const int64_t inferred = args.attrs.Int("inferred");
  if (inferred < -1 || inferred >= to.rank()) {
    return absl::InvalidArgumentError(absl::StrCat("there is no extent ", inferred, " to infer"));
  }
  return Reshaped(args.inputs[0], std::move(to), static_cast<int>(inferred));
}

absl::StatusOr<std::vector<Shape>> MergeAxesShape(const ShapeArgs& args) {
  const Shape& from = args.inputs[0];
  ASSIGN_OR_RETURN(const int first, CanonicalAxis(args.attrs.Int("first"), from.rank()));
  ASSIGN_OR_RETURN(const int last, CanonicalAxis(args.attrs.Int("last"), from.rank()));
  if (first > last) return absl::InvalidArgumentError(absl::StrCat("axis ", first, " comes after axis ", last));
  std::vector<int64_t> dims(from.dims().begin(), from.dims().begin() + first);
  const auto merged = from.dims().subspan(first, last - first + 1);
  const bool known = std::find(merged.begin(), merged.end(), Shape::kUnknown) == merged.end();
  dims.push_back(known ? from.elements(first, last + 1) : Shape::kUnknown);
  dims.insert(dims.end(), from.dims().begin() + last + 1, from.dims().end());
  return std::vector<Shape>{Shape(absl::MakeConstSpan(dims))};
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
Output Reshape(OpScope scope, Output x, const Extents& extents) {
  if (extents.settled()) return scope.Add("Reshape", {x}, {{"shape", extents.shape()}});
  std::vector<Extent> list = extents.list();
  const auto is_inferred = [](const Extent& extent) { return !extent.taken() && extent.size() == Shape::kUnknown; };
  const auto inferred = std::find_if(list.begin(), list.end(), is_inferred);
  const int64_t axis = inferred == list.end() ? -1 : inferred - list.begin();
  if (inferred != list.end()) *inferred = 1;  // another -1 is an error of the carrier
  return scope.Add("ReshapeTo", {x, CarrierOf(scope, list)}, {{"inferred", axis}});
}
Output MergeAxes(OpScope scope, Output x, int64_t first, int64_t last) {
  return scope.Add("MergeAxes", {x}, {{"first", first}, {"last", last}});
}
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
  OpDef reshape_to = View("ReshapeTo", ReshapeToShape, ReshapeBack);
  reshape_to.inputs.push_back({.name = "extents", .type = kCarrierType, .shape_only = true});
  reshape_to.attrs = {{"inferred", int64_t{-1}}};
  registry.Add(std::move(reshape_to));
  OpDef merge = View("MergeAxes", MergeAxesShape, ReshapeBack);
  merge.attrs = {{"first", int64_t{0}, true}, {"last", int64_t{0}, true}};
  registry.Add(std::move(merge));
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
