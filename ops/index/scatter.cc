// Sums of rows at given indices: the gradient of Gather, and ScatterND and SegmentSum, which are built of it.
#include <algorithm>
#include <type_traits>
#include <utility>
#include <vector>

#include "framework/base/half.h"
#include "framework/base/parallel.h"
#include "framework/base/status.h"
#include "ops/array.h"
#include "ops/common/compute_impl.h"
#include "ops/common/index_type_impl.h"
#include "ops/copy/extents_impl.h"
#include "ops/index/gather_impl.h"
#include "ops/index/index_ops.h"

namespace belfry::ops {
namespace {

constexpr DType kSummedTypes[] = {DType::kFloat32,  DType::kFloat64, DType::kFloat16,
                                  DType::kBFloat16, DType::kInt32,   DType::kInt64};

absl::StatusOr<std::vector<Shape>> GatherGradShape(const ShapeArgs& args) {
  ASSIGN_OR_RETURN(const Shape gathered, GatheredShape(args.attrs, args.inputs[2], args.inputs[1]));
  RETURN_IF_ERROR(gathered.Merge(args.inputs[0]).status());
  return std::vector<Shape>{args.inputs[2]};
}

// Attribute "axes": the number of leading axes that the indices count, in row-major order.
absl::StatusOr<std::vector<Shape>> ScatterRowsShape(const ShapeArgs& args) {
  ASSIGN_OR_RETURN(const Shape to, CarriedShape(args.inputs[2]));
  const int64_t axes = args.attrs.Int("axes");
  if (axes < 1 || axes > to.rank()) {
    return absl::InvalidArgumentError(absl::StrCat("cannot index ", axes, " axes of ", to.ToString()));
  }
  const Shape &updates = args.inputs[0], &indices = args.inputs[1];
  std::vector<int64_t> dims(indices.dims().begin(), indices.dims().end());
  dims.insert(dims.end(), to.dims().begin() + axes, to.dims().end());
  if (!updates.CompatibleWith(Shape(absl::MakeConstSpan(dims)))) {
    return absl::InvalidArgumentError(absl::StrCat("updates ", updates.ToString(), " must have the shape ",
                                                   Shape(absl::MakeConstSpan(dims)).ToString(),
                                                   ": that of the indices, then that of a slice"));
  }
  return std::vector<Shape>{to};
}

// Each thread owns some rows and adds to them in the order of the indices, so results do not depend on the number of
// threads. 16-bit types are added up in float32, in the workspace.
template <class T, class Index>
Kernel AddRowsKernel(const GatherLayout& layout) {
  using Sum = Compute<T>;
  constexpr bool narrow = !std::is_same_v<Sum, T>;
  const auto run = [layout](const KernelContext& context) {
    const T* dy = context.input<T>(0);
    const Index* indices = context.input<Index>(1);
    T* dx = context.output<T>(0);
    RETURN_IF_ERROR(CheckIndices(indices, layout));
    const double cost =
        static_cast<double>(layout.outer * layout.inner) *
        (1 + static_cast<double>(layout.count) / static_cast<double>(std::max<int64_t>(layout.rows, 1)));
    ParallelFor(layout.rows, cost, [&](int64_t begin, int64_t end) {
      for (int64_t o = 0; o < layout.outer; ++o) {
        T* block = dx + o * layout.rows * layout.inner;
        Sum* sums;
        if constexpr (narrow) {
          sums = static_cast<Sum*>(context.workspace);
        } else {
          sums = block;
        }
        std::fill(sums + begin * layout.inner, sums + end * layout.inner, Sum(0));
        for (int64_t i = 0; i < layout.count; ++i) {
          const int64_t row = indices[i];
          if (row < begin || row >= end) continue;
          const T* from = dy + (o * layout.count + i) * layout.inner;
          Sum* to = sums + row * layout.inner;
#pragma omp simd
          for (int64_t k = 0; k < layout.inner; ++k) to[k] += static_cast<Sum>(from[k]);
        }
        for (int64_t k = begin * layout.inner; narrow && k < end * layout.inner; ++k)
          block[k] = static_cast<T>(sums[k]);
      }
    });
    return absl::OkStatus();
  };
  return Kernel{.run = run,
                .workspace_bytes = narrow ? static_cast<size_t>(layout.rows * layout.inner) * sizeof(Sum) : 0};
}

template <class T>
Kernel AddRows(const KernelSpec& spec, const GatherLayout& layout) {
  return WithIndexType(spec.inputs[1].dtype, [&](auto index) { return AddRowsKernel<T, decltype(index)>(layout); });
}

template <class T>
absl::StatusOr<Kernel> MakeGatherGrad(const KernelSpec& spec) {
  ASSIGN_OR_RETURN(const GatherLayout layout,
                   MakeGatherLayout(spec.attrs, spec.outputs[0].shape, spec.inputs[1].shape));
  return AddRows<T>(spec, layout);
}

template <class T>
absl::StatusOr<Kernel> MakeScatterRows(const KernelSpec& spec) {
  return AddRows<T>(spec, ScatterLayout(spec));
}

std::vector<Output> GatherGradGrad(const Scope& scope, const Node& node, absl::Span<const Output> ddx) {
  return {Gather(scope, ddx[0], node.input(1), node.attrs().Int("axis")), Output(), Output()};
}

std::vector<Output> ScatterRowsGrad(const Scope& scope, const Node& node, absl::Span<const Output> dy) {
  const int64_t axes = node.attrs().Int("axes");
  const Output rows = axes == 1 ? dy[0] : MergeAxes(scope, dy[0], 0, axes - 1);
  return {Gather(scope, rows, node.input(1)), Output(), Output()};
}

}  // namespace

GatherLayout ScatterLayout(const KernelSpec& spec) {
  const Shape& to = spec.outputs[0].shape;
  const auto axes = static_cast<int>(spec.attrs.Int("axes"));
  return {1, to.elements(0, axes), spec.inputs[1].shape.elements(), to.elements(axes, to.rank())};
}

Output ScatterND(OpScope scope, Output indices, Output updates, const Extents& extents) {
  const Output carrier = CarrierOf(scope, extents);
  const Output rows = scope.Add("FlatIndices", {indices, carrier});
  const int64_t axes = indices.shape().rank() > 0 ? indices.shape()[-1] : 0;
  return scope.Add("ScatterRows", {updates, rows, carrier}, {{"axes", axes}});
}

Output SegmentSum(OpScope scope, Output data, Output segments, const Extent& count) {
  std::vector<Extent> extents = {count};
  for (int axis = segments.shape().rank(); axis < data.shape().rank(); ++axis) {
    extents.push_back(Extent::Of(data, axis));
  }
  return scope.Add("ScatterRows", {data, segments, CarrierOf(scope, extents)}, {{"axes", int64_t{1}}});
}

void RegisterScatterOps(OpRegistry& registry) {
  registry.Add(
      {.name = "GatherGrad",
       .inputs = {{.name = "dy"}, {.name = "indices", .type = "Tindices"}, {.name = "params", .shape_only = true}},
       .outputs = {{.name = "dparams"}},
       .types = {{"T", kFloatTypes}, {"Tindices", kIndexTypes}},
       .attrs = {{"axis", int64_t{0}}},
       .shape = GatherGradShape,
       .gradient = GatherGradGrad,
       .kernels = Kernels<float, double, Half, BFloat16>(
           "CPU", [](auto tag) { return &MakeGatherGrad<typename decltype(tag)::type>; })});
  registry.Add({.name = "ScatterRows",
                .inputs = {{.name = "updates"},
                           {.name = "indices", .type = "Tindices"},
                           {.name = "extents", .type = kCarrierType, .shape_only = true}},
                .outputs = {{.name = "output"}},
                .types = {{"T", kSummedTypes}, {"Tindices", kIndexTypes}},
                .attrs = {{"axes", int64_t{1}}},
                .shape = ScatterRowsShape,
                .gradient = ScatterRowsGrad,
                .kernels = Kernels<float, double, Half, BFloat16, int32_t, int64_t>(
                    "CPU", [](auto tag) { return &MakeScatterRows<typename decltype(tag)::type>; })});
}

}  // namespace belfry::ops
