#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/base/status.h"
#include "ops/array.h"
#include "ops/index/flat_indices_impl.h"
#include "ops/index/index_ops.h"
#include "ops/math.h"

namespace belfry::ops {
namespace {

absl::StatusOr<std::vector<Shape>> FlatIndicesShape(const ShapeArgs& args) {
  const Shape &indices = args.inputs[0], &params = args.inputs[1];
  const int64_t axes = indices.rank() == 0 ? Shape::kUnknown : indices[-1];
  if (axes == Shape::kUnknown) {
    return absl::InvalidArgumentError(
        absl::StrCat("indices must be [..., number of axes], with a known last extent, not ", indices.ToString()));
  }
  if (axes < 1 || axes > params.rank() || axes > FlatIndicesLayout::kMaxAxes) {
    return absl::InvalidArgumentError(
        absl::StrCat("indices ", indices.ToString(), " cannot index ", axes, " axes of ", params.ToString()));
  }
  return std::vector<Shape>{indices.Remove(indices.rank() - 1)};
}

template <class Index>
absl::Status OutOfRange(const FlatIndicesLayout& layout, const Index* index, int64_t position) {
  return absl::InvalidArgumentError(
      absl::StrCat("index [", absl::StrJoin(index, index + layout.axes, ", "), "] (at position ", position,
                   ") is outside [", absl::StrJoin(layout.extents, layout.extents + layout.axes, ", "), "]"));
}

template <class Index>
absl::StatusOr<Kernel> MakeFlatIndices(const KernelSpec& spec) {
  return Kernel{[n = spec.outputs[0].shape.elements(), layout = FlatIndicesLayout(spec)](const KernelContext& context) {
    const Index* indices = context.input<Index>(0);
    auto* const rows = context.output<int64_t>(0);
    for (int64_t i = 0; i < n; ++i) {
      rows[i] = layout.Row(indices + i * layout.axes);
      if (rows[i] < 0) return OutOfRange(layout, indices + i * layout.axes, i);
    }
    return absl::OkStatus();
  }};
}

}  // namespace

FlatIndicesLayout::FlatIndicesLayout(const KernelSpec& spec) : axes(static_cast<int>(spec.inputs[0].shape[-1])) {
  for (int axis = 0; axis < axes; ++axis) extents[axis] = spec.inputs[1].shape[axis];
}

Output TakeAlong(OpScope scope, Output x, Output indices, int64_t axis) {
  if (!x.valid() || !indices.valid()) return GatherND(scope, x, indices);  // its error
  const int rank = x.shape().rank();
  const int64_t along = axis < 0 ? axis + rank : axis;
  Shape expected = x.shape();
  if (along >= 0 && along < rank) expected.set_dim(static_cast<int>(along), Shape::kUnknown);
  if (along < 0 || along >= rank || !indices.shape().CompatibleWith(expected)) {
    scope.Fail(absl::InvalidArgumentError(
        absl::StrCat("TakeAlong axis ", axis, " of '", x.name(), "', which is ", x.shape().ToString(),
                     ", with indices ", indices.shape().ToString(), "; expected ", expected.ToString())));
    return Output();
  }
  const Output ones = OnesLike(scope, indices);
  std::vector<Output> places;
  for (int i = 0; i < rank; ++i) {
    places.push_back(i == along ? indices : Cumsum(scope, ones, i, {.exclusive = true}));
  }
  return GatherND(scope, x, Stack(scope, places, rank));
}

Output GatherND(OpScope scope, Output params, Output indices) {
  const Output rows = scope.Add("FlatIndices", {indices, params});
  const int64_t axes = indices.shape().rank() > 0 ? indices.shape()[-1] : 0;
  return Gather(scope, axes > 1 ? MergeAxes(scope, params, 0, axes - 1) : params, rows);
}

void RegisterFlatIndicesOps(OpRegistry& registry) {
  registry.Add({.name = "FlatIndices",
                .inputs = {{.name = "indices"}, {.name = "params", .type = "P", .shape_only = true}},
                .outputs = {{.name = "rows", .type = "int64"}},
                .types = {{"T", kIndexTypes}, {"P", kAnyType}},
                .shape = FlatIndicesShape,
                .not_differentiable = true,
                .kernels = Kernels<int32_t, int64_t>(
                    "CPU", [](auto tag) { return &MakeFlatIndices<typename decltype(tag)::type>; })});
}

}  // namespace belfry::ops
