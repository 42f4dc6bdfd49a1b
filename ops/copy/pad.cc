#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/base/status.h"
#include "ops/array.h"
#include "ops/copy/box_copy.h"
#include "ops/copy/copy_impl.h"
#include "ops/copy/copy_ops.h"

namespace belfry::ops {
namespace {

absl::StatusOr<std::vector<Shape>> PadShape(const ShapeArgs& args) {
  const Shape& x = args.inputs[0];
  const std::vector<int64_t>& paddings = args.attrs.Ints("paddings");
  if (paddings.size() != 2 * static_cast<size_t>(x.rank())) {
    return absl::InvalidArgumentError(absl::StrCat("needs a padding before and after each axis of ", x.ToString(),
                                                   ", but was given ", paddings.size(), " numbers"));
  }
  std::vector<int64_t> dims(x.dims().begin(), x.dims().end());
  for (size_t axis = 0; axis < dims.size(); ++axis) {
    if (dims[axis] == Shape::kUnknown) continue;
    dims[axis] = AddExtents(AddExtents(dims[axis], paddings[2 * axis]), paddings[2 * axis + 1]);
    if (dims[axis] < 0) {
      return absl::InvalidArgumentError(absl::StrCat("paddings ", paddings[2 * axis], " and ", paddings[2 * axis + 1],
                                                     " crop more elements than there are along axis ", axis, " of ",
                                                     x.ToString()));
    }
  }
  ASSIGN_OR_RETURN(const Shape to, Shape::Make(dims));
  return std::vector<Shape>{to};
}

std::vector<Output> PadGrad(const Scope& scope, const Node& node, absl::Span<const Output> dy) {
  std::vector<int64_t> crops = node.attrs().Ints("paddings");
  for (int64_t& padding : crops) padding = -padding;
  return {scope.Add("Pad", {dy[0]}, {{"paddings", std::move(crops)}})};
}

}  // namespace

absl::StatusOr<BoxCopy> PlanPad(const KernelSpec& spec) {
  const Shape &from = spec.inputs[0].shape, &to = spec.outputs[0].shape;
  const std::vector<int64_t>& paddings = spec.attrs.Ints("paddings");
  const std::vector<int64_t> strides = RowMajorStrides(from);
  BoxCopy box = {.fill = ElementBits(spec.attrs.Float("value"), spec.outputs[0].dtype)};
  for (int axis = 0; axis < to.rank(); ++axis) {
    const int64_t before = paddings[2 * axis], after = paddings[2 * axis + 1];
    const int64_t begin = std::max<int64_t>(0, -before), end = from[axis] + std::min<int64_t>(0, after);
    box.axes.push_back({.extent = to[axis],
                        .from = strides[axis],
                        .begin = begin + before,
                        .count = std::max<int64_t>(0, end - begin)});
    box.from_offset += begin * strides[axis];
  }
  return box;
}

Output Pad(OpScope scope, Output x, std::vector<AxisPadding> paddings, double value) {
  std::vector<int64_t> flat;
  for (const AxisPadding& padding : paddings) {
    flat.push_back(padding.before);
    flat.push_back(padding.after);
  }
  return scope.Add("Pad", {x}, {{"paddings", std::move(flat)}, {"value", value}});
}

Output CircularPad(OpScope scope, Output x, const std::vector<AxisPadding>& paddings) {
  if (!x.valid()) return scope.Add("Pad", {x});  // its error
  const int rank = x.shape().rank();
  bool fits = static_cast<size_t>(rank) == paddings.size();
  for (int axis = 0; axis < rank && fits; ++axis) {
    const auto [before, after] = paddings[axis];
    fits = before >= 0 && after >= 0 && (std::max(before, after) <= x.shape()[axis] || before + after == 0);
  }
  if (!fits) {
    std::vector<std::string> texts;
    for (const AxisPadding& padding : paddings) texts.push_back(absl::StrCat(padding.before, "+", padding.after));
    scope.Fail(absl::InvalidArgumentError(absl::StrCat(
        "CircularPad of '", x.name(), "', which is ", x.shape().ToString(), ", by [", absl::StrJoin(texts, ", "),
        "]; expected a padding for each axis, of at most its extent on a side")));
    return Output();
  }
  for (int axis = 0; axis < rank; ++axis) {
    const auto [before, after] = paddings[axis];
    if (before + after == 0) continue;
    const int64_t extent = x.shape()[axis];
    std::vector<int64_t> begin(rank, 0), end(rank, kSliceEnd);
    const auto part = [&](int64_t from, int64_t to) {
      begin[axis] = from;
      end[axis] = to;
      return StridedSlice(scope, x, begin, end);
    };
    std::vector<Output> parts;
    if (before > 0) parts.push_back(part(extent - before, extent));
    parts.push_back(x);
    if (after > 0) parts.push_back(part(0, after));
    x = Concat(scope, parts, axis);
  }
  return x;
}

void RegisterPadOps(OpRegistry& registry) {
  registry.Add({.name = "Pad",
                .inputs = {{.name = "x"}},
                .outputs = {{.name = "y"}},
                .types = {{"T", kAnyType}},
                .attrs = {{"paddings", std::vector<int64_t>(), true}, {"value", 0.0}},
                .shape = PadShape,
                .gradient = PadGrad,
                .kernels = BoxCopyKernels(PlanPad)});
}

}  // namespace belfry::ops
