#include <algorithm>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "ops/array.h"
#include "ops/array/array_impl.h"
#include "ops/array/array_ops.h"

namespace belfry::ops {
namespace {

absl::StatusOr<std::vector<Shape>> PadShape(const ShapeArgs& args) {
  const Shape& x = args.inputs[0];
  const std::vector<int64_t>& paddings = args.attrs.Ints("paddings");
  if (paddings.size() != 2 * static_cast<size_t>(x.rank())) {
    return absl::InvalidArgumentError(absl::StrCat("needs a padding before and after each axis of ", x.ToString(),
                                                   " and was given ", paddings.size(), " numbers"));
  }
  std::vector<int64_t> dims(x.dims().begin(), x.dims().end());
  for (size_t axis = 0; axis < dims.size(); ++axis) {
    if (dims[axis] == Shape::kUnknown) continue;
    dims[axis] = AddExtents(AddExtents(dims[axis], paddings[2 * axis]), paddings[2 * axis + 1]);
    if (dims[axis] < 0) {
      return absl::InvalidArgumentError(absl::StrCat("paddings ", paddings[2 * axis], " and ", paddings[2 * axis + 1],
                                                     " crop more than there is of axis ", axis, " of ", x.ToString()));
    }
  }
  ASSIGN_OR_RETURN(const Shape to, Shape::Make(dims));
  return std::vector<Shape>{to};
}

absl::StatusOr<Kernel> MakePad(const KernelSpec& spec) {
  const Shape &from = spec.inputs[0].shape, &to = spec.outputs[0].shape;
  const std::vector<int64_t>& paddings = spec.attrs.Ints("paddings");
  const std::vector<int64_t> from_strides = RowMajorStrides(from), to_strides = RowMajorStrides(to);
  std::vector<CopyAxis> axes;
  int64_t from_offset = 0, to_offset = 0;
  for (int axis = 0; axis < to.rank(); ++axis) {
    const int64_t before = paddings[2 * axis], after = paddings[2 * axis + 1];
    const int64_t begin = std::max<int64_t>(0, -before), end = from[axis] + std::min<int64_t>(0, after);
    axes.push_back({std::max<int64_t>(0, end - begin), from_strides[axis], to_strides[axis]});
    from_offset += begin * from_strides[axis];
    to_offset += (begin + before) * to_strides[axis];
  }
  const TensorSpec& output = spec.outputs[0];
  const size_t size = SizeOf(output.dtype);
  ASSIGN_OR_RETURN(StridedCopy copy, StridedCopy::Make(size, std::move(axes), from_offset, to_offset));
  const int64_t n = output.shape.elements();
  const int64_t filled = copy.elements() == n ? 0 : n;
  return Kernel{[copy = std::move(copy), filled, size,
                 bits = ElementBits(spec.attrs.Float("value"), output.dtype)](const KernelContext& context) {
    FillElements(context.outputs[0], filled, size, bits);
    copy.Run(context.inputs[0], context.outputs[0]);
    return absl::OkStatus();
  }};
}

std::vector<Output> PadGrad(const Scope& scope, const Node& node, absl::Span<const Output> dy) {
  std::vector<int64_t> crops = node.attrs().Ints("paddings");
  for (int64_t& padding : crops) padding = -padding;
  return {scope.Add("Pad", {dy[0]}, {{"paddings", std::move(crops)}})};
}

}  // namespace

Output Pad(OpScope scope, Output x, std::vector<AxisPadding> paddings, double value) {
  std::vector<int64_t> flat;
  for (const AxisPadding& padding : paddings) {
    flat.push_back(padding.before);
    flat.push_back(padding.after);
  }
  return scope.Add("Pad", {x}, {{"paddings", std::move(flat)}, {"value", value}});
}

void RegisterPadOps(OpRegistry& registry) {
  registry.Add({.name = "Pad",
                .inputs = {{.name = "x"}},
                .outputs = {{.name = "y"}},
                .types = {{"T", kAnyType}},
                .attrs = {{"paddings", std::vector<int64_t>(), true}, {"value", 0.0}},
                .shape = PadShape,
                .gradient = PadGrad,
                .kernels = AnyTypeKernels(MakePad)});
}

}  // namespace belfry::ops
