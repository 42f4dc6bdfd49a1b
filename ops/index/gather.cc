#include <algorithm>
#include <cstddef>
#include <cstring>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "framework/base/half.h"
#include "framework/base/parallel.h"
#include "framework/base/status.h"
#include "ops/array.h"
#include "ops/common/compute_impl.h"
#include "ops/copy/copy_impl.h"
#include "ops/index/gather_impl.h"
#include "ops/index/index_ops.h"

namespace belfry::ops {
namespace {

absl::StatusOr<Shape> Gathered(const Attrs& attrs, const Shape& params, const Shape& indices) {
  ASSIGN_OR_RETURN(const int axis, CanonicalAxis(attrs.Int("axis"), params.rank()));
  std::vector<int64_t> dims(params.dims().begin(), params.dims().end());
  dims.erase(dims.begin() + axis);
  dims.insert(dims.begin() + axis, indices.dims().begin(), indices.dims().end());
  return Shape::Make(dims);
}

absl::StatusOr<std::vector<Shape>> GatherShape(const ShapeArgs& args) {
  ASSIGN_OR_RETURN(const Shape to, Gathered(args.attrs, args.inputs[0], args.inputs[1]));
  return std::vector<Shape>{to};
}

absl::StatusOr<std::vector<Shape>> GatherGradShape(const ShapeArgs& args) {
  ASSIGN_OR_RETURN(const Shape gathered, Gathered(args.attrs, args.inputs[2], args.inputs[1]));
  RETURN_IF_ERROR(gathered.Merge(args.inputs[0]).status());
  return std::vector<Shape>{args.inputs[2]};
}

template <class Index>
absl::Status CheckIndices(const Index* indices, const GatherLayout& layout) {
  for (int64_t i = 0; i < layout.count; ++i) {
    if (indices[i] >= 0 && indices[i] < layout.rows) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("index ", indices[i], " (at position ", i, ") is outside [0, ", layout.rows, ")"));
  }
  return absl::OkStatus();
}

// With a constant width the copy of a row compiles to a single move.
template <class Index, size_t width>
void CopyRows(const std::byte* params, const Index* indices, const GatherLayout& layout, size_t bytes, std::byte* y) {
  if constexpr (width != 0) bytes = width;
  const auto stride = static_cast<int64_t>(bytes);
  ParallelFor(layout.outer * layout.count, static_cast<double>(layout.inner), [&](int64_t begin, int64_t end) {
    int64_t i = begin % layout.count;
    const std::byte* block = params + begin / layout.count * layout.rows * stride;
    for (int64_t row = begin; row < end; ++row) {
      std::memcpy(y + row * stride, block + static_cast<int64_t>(indices[i]) * stride, bytes);
      if (++i < layout.count) continue;
      i = 0;
      block += layout.rows * stride;
    }
  });
}

template <class Index>
Kernel GatherKernel(const GatherLayout& layout, size_t bytes) {
  auto* copy = bytes == 1   ? &CopyRows<Index, 1>
               : bytes == 2 ? &CopyRows<Index, 2>
               : bytes == 4 ? &CopyRows<Index, 4>
               : bytes == 8 ? &CopyRows<Index, 8>
                            : &CopyRows<Index, 0>;
  return Kernel{[layout, bytes, copy](const KernelContext& context) {
    const Index* indices = context.input<Index>(1);
    RETURN_IF_ERROR(CheckIndices(indices, layout));
    if (bytes > 0) copy(context.input<std::byte>(0), indices, layout, bytes, context.output<std::byte>(0));
    return absl::OkStatus();
  }};
}

absl::StatusOr<Kernel> MakeGather(const KernelSpec& spec) {
  ASSIGN_OR_RETURN(const GatherLayout layout, MakeGatherLayout(spec.attrs, spec.inputs[0].shape, spec.inputs[1].shape));
  const size_t bytes = static_cast<size_t>(layout.inner) * SizeOf(spec.outputs[0].dtype);
  return spec.inputs[1].dtype == DType::kInt32 ? GatherKernel<int32_t>(layout, bytes)
                                               : GatherKernel<int64_t>(layout, bytes);
}

// Each thread owns some rows and adds to them in the order of the indices, so results do not depend on the number of
// threads. 16-bit types are added up in float32, in the workspace.
template <class T, class Index>
Kernel GatherGradKernel(const GatherLayout& layout) {
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
absl::StatusOr<Kernel> MakeGatherGrad(const KernelSpec& spec) {
  ASSIGN_OR_RETURN(const GatherLayout layout,
                   MakeGatherLayout(spec.attrs, spec.outputs[0].shape, spec.inputs[1].shape));
  return spec.inputs[1].dtype == DType::kInt32 ? GatherGradKernel<T, int32_t>(layout)
                                               : GatherGradKernel<T, int64_t>(layout);
}

std::vector<Output> GatherGrad(const Scope& scope, const Node& node, absl::Span<const Output> dy) {
  return {scope.Add("GatherGrad", {dy[0], node.input(1), node.input(0)}, {{"axis", node.attrs().Int("axis")}}),
          Output()};
}

std::vector<Output> GatherGradGrad(const Scope& scope, const Node& node, absl::Span<const Output> ddx) {
  return {Gather(scope, ddx[0], node.input(1), node.attrs().Int("axis")), Output(), Output()};
}

}  // namespace

absl::StatusOr<GatherLayout> MakeGatherLayout(const Attrs& attrs, const Shape& params, const Shape& indices) {
  ASSIGN_OR_RETURN(const int axis, CanonicalAxis(attrs.Int("axis"), params.rank()));
  return GatherLayout{params.elements(0, axis), params[axis], indices.elements(),
                      params.elements(axis + 1, params.rank())};
}

Output Gather(OpScope scope, Output params, Output indices, int64_t axis) {
  return scope.Add("Gather", {params, indices}, {{"axis", axis}});
}

void RegisterGatherOps(OpRegistry& registry) {
  registry.Add({.name = "Gather",
                .inputs = {{.name = "params"}, {.name = "indices", .type = "Tindices"}},
                .outputs = {{.name = "output"}},
                .types = {{"T", kAnyType}, {"Tindices", kIndexTypes}},
                .attrs = {{"axis", int64_t{0}}},
                .shape = GatherShape,
                .gradient = GatherGrad,
                .kernels = AnyTypeKernels(MakeGather)});
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
}

}  // namespace belfry::ops
