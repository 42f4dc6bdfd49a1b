#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "ops/array.h"
#include "ops/copy/box_copy.h"
#include "ops/copy/copy_impl.h"
#include "ops/copy/copy_ops.h"

namespace belfry::ops {
namespace {

absl::Status Unfit(const Shape& from, const Shape& to) {
  return absl::InvalidArgumentError(absl::StrCat("cannot broadcast ", from.ToString(), " to ", to.ToString()));
}

// Checks that `from` broadcasts to `to`, and fills unknown extents of `to` from `from`.
absl::StatusOr<Shape> Stretch(const Shape& from, Shape to) {
  const int offset = to.rank() - from.rank();
  if (offset < 0) return Unfit(from, to);
  for (int axis = 0; axis < from.rank(); ++axis) {
    const int64_t have = from[axis], want = to[axis + offset];
    if (have == want || have == 1 || have == Shape::kUnknown) continue;
    if (want != Shape::kUnknown) return Unfit(from, to);
    to.set_dim(axis + offset, have);
  }
  return to;
}

absl::StatusOr<std::vector<Shape>> BroadcastToShape(const ShapeArgs& args) {
  const Shape& from = args.inputs[0];
  Shape to = args.attrs.Get<Shape>("shape");
  const int offset = to.rank() - from.rank();
  if (offset < 0) return Unfit(from, to);
  for (int axis = 0; axis < to.rank(); ++axis) {
    if (to[axis] != Shape::kUnknown) continue;
    if (axis < offset) {
      return absl::InvalidArgumentError(absl::StrCat("extent ", axis, " of ", to.ToString(), " is -1, but ",
                                                     from.ToString(), " has no such extent to keep"));
    }
    to.set_dim(axis, from[axis - offset]);
  }
  ASSIGN_OR_RETURN(to, Stretch(from, to));
  return std::vector<Shape>{to};
}

absl::StatusOr<std::vector<Shape>> BroadcastLikeShape(const ShapeArgs& args) {
  ASSIGN_OR_RETURN(const Shape to, Stretch(args.inputs[0], args.inputs[1]));
  return std::vector<Shape>{to};
}

std::vector<Output> BroadcastGrad(const Scope& scope, const Node& node, absl::Span<const Output> dy) {
  std::vector<Output> dx(node.inputs().size());
  dx[0] = SumToShapeOf(scope, dy[0], node.input(0));
  return dx;
}

}  // namespace

absl::StatusOr<BoxCopy> PlanBroadcastTo(const KernelSpec& spec) {
  const Shape &from = spec.inputs[0].shape, &to = spec.outputs[0].shape;
  const std::vector<int64_t> strides = RowMajorStrides(from);
  const int offset = to.rank() - from.rank();
  BoxCopy box;
  for (int axis = 0; axis < to.rank(); ++axis) {
    const bool repeats = axis < offset || from[axis - offset] == 1;
    box.axes.push_back(WholeAxis(to[axis], repeats ? 0 : strides[axis - offset]));
  }
  return box;
}

Output BroadcastTo(OpScope scope, Output x, const Shape& shape) {
  return scope.Add("BroadcastTo", {x}, {{"shape", shape}});
}
Output BroadcastLike(OpScope scope, Output x, Output like) { return scope.Add("BroadcastLike", {x, like}); }

void RegisterBroadcastOps(OpRegistry& registry) {
  OpDef op = {.name = "BroadcastTo",
              .inputs = {{.name = "x"}},
              .outputs = {{.name = "y"}},
              .types = {{"T", kAnyType}},
              .attrs = {{"shape", Shape(), true}},
              .shape = BroadcastToShape,
              .gradient = BroadcastGrad,
              .elementwise = true,
              .identity_if_same_shape = true,
              .kernels = BoxCopyKernels(PlanBroadcastTo)};
  registry.Add(op);
  op.name = "BroadcastLike";
  op.inputs.push_back({.name = "like", .type = "L", .shape_only = true});
  op.types.push_back({"L", kAnyType});
  op.attrs.clear();
  op.shape = BroadcastLikeShape;
  registry.Add(std::move(op));
}

}  // namespace belfry::ops
