#include <cstddef>
#include <cstring>

#include "framework/base/parallel.h"
#include "framework/base/status.h"
#include "ops/array.h"
#include "ops/common/index_type_impl.h"
#include "ops/copy/copy_impl.h"
#include "ops/index/gather_impl.h"
#include "ops/index/index_ops.h"

namespace belfry::ops {
namespace {

absl::StatusOr<std::vector<Shape>> GatherShape(const ShapeArgs& args) {
  ASSIGN_OR_RETURN(const Shape to, GatheredShape(args.attrs, args.inputs[0], args.inputs[1]));
  return std::vector<Shape>{to};
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
  return WithIndexType(spec.inputs[1].dtype, [&](auto index) { return GatherKernel<decltype(index)>(layout, bytes); });
}

std::vector<Output> GatherGrad(const Scope& scope, const Node& node, absl::Span<const Output> dy) {
  return {scope.Add("GatherGrad", {dy[0], node.input(1), node.input(0)}, {{"axis", node.attrs().Int("axis")}}),
          Output()};
}

}  // namespace

absl::StatusOr<Shape> GatheredShape(const Attrs& attrs, const Shape& params, const Shape& indices) {
  ASSIGN_OR_RETURN(const int axis, CanonicalAxis(attrs.Int("axis"), params.rank()));
  std::vector<int64_t> dims(params.dims().begin(), params.dims().end());
  dims.erase(dims.begin() + axis);
  dims.insert(dims.begin() + axis, indices.dims().begin(), indices.dims().end());
  return Shape::Make(dims);
}

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
}

}  // namespace belfry::ops
