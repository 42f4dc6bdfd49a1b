#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "ops/array.h"
#include "ops/copy/box_copy.h"
#include "ops/copy/copy_impl.h"
#include "ops/copy/copy_ops.h"

namespace belfry::ops {
namespace {

// The elements of one axis that a slice takes: start, start + step, ..., `count` in all (unknown if the extent is).
struct SliceAxis {
  int64_t start = 0, step = 1, count = 0;
};
using Resolver = absl::StatusOr<std::vector<SliceAxis>> (*)(const Attrs& attrs, const Shape& x);

absl::StatusOr<std::vector<SliceAxis>> ResolveSlice(const Attrs& attrs, const Shape& x) {
  const std::vector<int64_t>&begin = attrs.Ints("begin"), &size = attrs.Ints("size");
  std::vector<SliceAxis> axes(x.rank());
  if (begin.size() != axes.size() || size.size() != axes.size()) {
    return absl::InvalidArgumentError(absl::StrCat("needs one begin and one size per axis of ", x.ToString(),
                                                   ", but was given ", begin.size(), " and ", size.size()));
  }
  for (int axis = 0; axis < x.rank(); ++axis) {
    const int64_t extent = x[axis], start = begin[axis];
    int64_t count = size[axis];
    if (count == -1) count = extent == Shape::kUnknown ? extent : extent - start;
    const bool fits = extent == Shape::kUnknown ? count >= Shape::kUnknown : count >= 0 && start <= extent - count;
    if (start < 0 || !fits) {
      return absl::InvalidArgumentError(
          absl::StrCat("begin ", start, " and size ", size[axis], " do not fit axis ", axis, " of ", x.ToString()));
    }
    axes[axis] = {start, 1, count};
  }
  return axes;
}

// Python's rule for one axis: negative bounds count from the end, then bounds are clamped to the axis.
SliceAxis Resolve(int64_t begin, int64_t end, int64_t step, int64_t extent) {
  if (extent == Shape::kUnknown) return {0, step, Shape::kUnknown};
  const int64_t low = step > 0 ? 0 : -1, high = step > 0 ? extent : extent - 1;
  const auto place = [&](int64_t border) { return std::clamp(border < 0 ? border + extent : border, low, high); };
  const int64_t first = place(begin), last = place(end);
  const int64_t distance = step > 0 ? last - first : first - last;
  const int64_t stride = step > 0 ? step : -step;
  const int64_t count = distance <= 0 ? 0 : (distance - 1) / stride + 1;
  return {count == 0 ? 0 : first, count <= 1 ? 1 : step, count};
}

absl::StatusOr<std::vector<SliceAxis>> ResolveStrided(const Attrs& attrs, const Shape& x) {
  const std::vector<int64_t>&begin = attrs.Ints("begin"), &end = attrs.Ints("end"), &strides = attrs.Ints("strides");
  const bool unit = strides.empty();
  if (end.size() != begin.size() || (!unit && strides.size() != begin.size()) ||
      static_cast<int>(begin.size()) > x.rank()) {
    return absl::InvalidArgumentError(absl::StrCat("begin, end and strides must have the same length, at most ",
                                                   x.rank(), ", the rank of ", x.ToString()));
  }
  std::vector<SliceAxis> axes(x.rank());
  for (int axis = 0; axis < x.rank(); ++axis) {
    const auto i = static_cast<size_t>(axis);
    axes[axis] = {0, 1, x[axis]};
    if (i >= begin.size()) continue;
    const int64_t step = unit ? 1 : strides[i];
    if (step == 0 || step < -kSliceEnd)
      return absl::InvalidArgumentError(absl::StrCat("stride ", step, " is not allowed"));
    axes[axis] = Resolve(begin[i], end[i], step, x[axis]);
  }
  return axes;
}

Shape Sliced(const std::vector<SliceAxis>& axes) {
  std::vector<int64_t> dims;
  for (const SliceAxis& axis : axes) dims.push_back(axis.count);
  return Shape(absl::MakeConstSpan(dims));
}

template <Resolver resolve>
absl::StatusOr<std::vector<Shape>> SliceShape(const ShapeArgs& args) {
  ASSIGN_OR_RETURN(const std::vector<SliceAxis> axes, resolve(args.attrs, args.inputs[0]));
  return std::vector<Shape>{Sliced(axes)};
}

template <Resolver resolve>
absl::StatusOr<std::vector<Shape>> SliceGradShape(const ShapeArgs& args) {
  ASSIGN_OR_RETURN(const std::vector<SliceAxis> axes, resolve(args.attrs, args.inputs[1]));
  RETURN_IF_ERROR(Sliced(axes).Merge(args.inputs[0]).status());
  return std::vector<Shape>{args.inputs[1]};
}

// Copies the slice of input 0 to the output.
template <Resolver resolve>
absl::StatusOr<BoxCopy> TakeSlice(const KernelSpec& spec) {
  const Shape& x = spec.inputs[0].shape;
  ASSIGN_OR_RETURN(const std::vector<SliceAxis> slice, resolve(spec.attrs, x));
  const std::vector<int64_t> strides = RowMajorStrides(x);
  BoxCopy box;
  for (size_t axis = 0; axis < slice.size(); ++axis) {
    box.axes.push_back(WholeAxis(slice[axis].count, slice[axis].step * strides[axis]));
    box.from_offset += slice[axis].start * strides[axis];
  }
  return box;
}

// Copies input 0 into the slice of the output, and fills the rest with zeros. A negative step is reversed, since a
// BoxAxis has step >= 1.
template <Resolver resolve>
absl::StatusOr<BoxCopy> PlaceSlice(const KernelSpec& spec) {
  const Shape& x = spec.outputs[0].shape;
  ASSIGN_OR_RETURN(const std::vector<SliceAxis> slice, resolve(spec.attrs, x));
  const std::vector<int64_t> dense = RowMajorStrides(Sliced(slice));
  BoxCopy box;
  for (size_t axis = 0; axis < slice.size(); ++axis) {
    const auto [start, step, count] = slice[axis];
    BoxAxis to = {x[static_cast<int>(axis)], dense[axis], start, step, count};
    if (step < 0 && count > 0) {
      to = {to.extent, -to.from, start + (count - 1) * step, -step, count};
      box.from_offset += (count - 1) * dense[axis];
    }
    box.axes.push_back(to);
  }
  return box;
}

// Registers a slice op and its gradient, which have the same attributes and are each other's gradient.
template <Resolver resolve>
void AddSliceOps(absl::string_view name, std::vector<AttrDef> attrs, OpRegistry& registry) {
  const std::string forward(name), backward = absl::StrCat(name, "Grad");
  registry.Add({.name = forward,
                .inputs = {{.name = "x"}},
                .outputs = {{.name = "y"}},
                .types = {{"T", kAnyType}},
                .attrs = attrs,
                .shape = SliceShape<resolve>,
                .gradient =
                    [backward](const Scope& scope, const Node& node, absl::Span<const Output> dy) {
                      return std::vector<Output>{scope.Add(backward, {dy[0], node.input(0)}, node.attrs())};
                    },
                .kernels = BoxCopyKernels(TakeSlice<resolve>)});
  registry.Add({.name = backward,
                .inputs = {{.name = "dy"}, {.name = "x", .shape_only = true}},
                .outputs = {{.name = "dx"}},
                .types = {{"T", kAnyType}},
                .attrs = attrs,
                .shape = SliceGradShape<resolve>,
                .gradient =
                    [forward](const Scope& scope, const Node& node, absl::Span<const Output> ddx) {
                      return std::vector<Output>{scope.Add(forward, {ddx[0]}, node.attrs()), Output()};
                    },
                .kernels = BoxCopyKernels(PlaceSlice<resolve>)});
}

}  // namespace

absl::StatusOr<BoxCopy> PlanSlice(const KernelSpec& spec) { return TakeSlice<ResolveSlice>(spec); }
absl::StatusOr<BoxCopy> PlanSliceGrad(const KernelSpec& spec) { return PlaceSlice<ResolveSlice>(spec); }
absl::StatusOr<BoxCopy> PlanStridedSlice(const KernelSpec& spec) { return TakeSlice<ResolveStrided>(spec); }
absl::StatusOr<BoxCopy> PlanStridedSliceGrad(const KernelSpec& spec) { return PlaceSlice<ResolveStrided>(spec); }

Output Slice(OpScope scope, Output x, std::vector<int64_t> begin, std::vector<int64_t> size) {
  return scope.Add("Slice", {x}, {{"begin", std::move(begin)}, {"size", std::move(size)}});
}
Output StridedSlice(OpScope scope, Output x, std::vector<int64_t> begin, std::vector<int64_t> end,
                    std::vector<int64_t> strides) {
  return scope.Add("StridedSlice", {x},
                   {{"begin", std::move(begin)}, {"end", std::move(end)}, {"strides", std::move(strides)}});
}

void RegisterSliceOps(OpRegistry& registry) {
  const std::vector<int64_t> list;
  AddSliceOps<ResolveSlice>("Slice", {{"begin", list, true}, {"size", list, true}}, registry);
  AddSliceOps<ResolveStrided>("StridedSlice", {{"begin", list, true}, {"end", list, true}, {"strides", list}},
                              registry);
}

}  // namespace belfry::ops
