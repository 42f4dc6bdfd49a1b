#include <algorithm>

#include "framework/base/check.h"
#include "framework/base/half.h"
#include "framework/base/parallel.h"
#include "ops/array.h"
#include "ops/common/index_type_impl.h"
#include "ops/copy/convert_impl.h"
#include "ops/copy/copy_impl.h"
#include "ops/copy/copy_ops.h"

namespace belfry::ops {
namespace {

template <class From, class To>
Kernel CastKernel(int64_t n) {
  return Kernel{[n](const KernelContext& context) {
    const From* x = context.input<From>(0);
    To* y = context.output<To>(0);
    ParallelFor(n, 1, [=](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) y[i] = ConvertElement<To>(x[i]);
    });
    return absl::OkStatus();
  }};
}

template <class From>
absl::StatusOr<Kernel> MakeCast(const KernelSpec& spec) {
  const int64_t n = spec.outputs[0].shape.elements();
  switch (spec.outputs[0].dtype) {
    case DType::kFloat32: return CastKernel<From, float>(n);
    case DType::kFloat64: return CastKernel<From, double>(n);
    case DType::kFloat16: return CastKernel<From, Half>(n);
    case DType::kBFloat16: return CastKernel<From, BFloat16>(n);
    case DType::kInt32: return CastKernel<From, int32_t>(n);
    case DType::kInt64: return CastKernel<From, int64_t>(n);
    case DType::kUInt8: return CastKernel<From, uint8_t>(n);
    case DType::kBool: return CastKernel<From, bool>(n);
  }
  return absl::InternalError("no such dtype");
}

std::vector<Output> CastGrad(const Scope& scope, const Node& node, absl::Span<const Output> dy) {
  const bool differentiable = IsFloating(node.input(0).dtype()) && IsFloating(node.output(0).dtype());
  return {differentiable ? Cast(scope, dy[0], node.input(0).dtype()) : Output()};
}

absl::StatusOr<std::vector<Shape>> ShapeOfShape(const ShapeArgs& args) {
  return std::vector<Shape>{{args.inputs[0].rank()}};
}

template <class T>
Kernel ShapeKernel(const Shape& shape) {
  std::vector<T> dims(shape.dims().begin(), shape.dims().end());
  return Kernel{[dims = std::move(dims)](const KernelContext& context) {
    std::copy(dims.begin(), dims.end(), context.output<T>(0));
    return absl::OkStatus();
  }};
}

absl::StatusOr<Kernel> MakeShape(const KernelSpec& spec) {
  const Shape& shape = spec.inputs[0].shape;
  return WithIndexType(spec.outputs[0].dtype, [&](auto index) { return ShapeKernel<decltype(index)>(shape); });
}

}  // namespace

Output Cast(OpScope scope, Output x, DType dtype) {
  if (x.valid() && x.dtype() == dtype) return x;
  return scope.Add("Cast", {x}, {{"DstT", dtype}});
}
Output ShapeOf(OpScope scope, Output x, DType dtype) { return scope.Add("Shape", {x}, {{"out_type", dtype}}); }

void RegisterCastOps(OpRegistry& registry) {
  registry.Add({.name = "Cast",
                .inputs = {{.name = "x", .type = "SrcT"}},
                .outputs = {{.name = "y", .type = "DstT"}},
                .types = {{"SrcT", kAnyType}, {"DstT", kAnyType}},
                .shape = UnchangedShape,
                .gradient = CastGrad,
                .elementwise = true,
                .kernels = Kernels<float, double, Half, BFloat16, int32_t, int64_t, uint8_t, bool>(
                    "CPU", [](auto tag) { return &MakeCast<typename decltype(tag)::type>; })});
  registry.Add({.name = "Shape",
                .inputs = {{.name = "x", .shape_only = true}},
                .outputs = {{.name = "shape", .type = "out_type"}},
                .types = {{"T", kAnyType}, {"out_type", kIndexTypes}},
                .shape = ShapeOfShape,
                .not_differentiable = true,
                .kernels = AnyTypeKernels(MakeShape)});
}

}  // namespace belfry::ops
