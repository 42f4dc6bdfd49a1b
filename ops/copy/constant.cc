#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "framework/base/half.h"
#include "framework/base/status.h"
#include "ops/array.h"
#include "ops/copy/convert_impl.h"
#include "ops/copy/copy_impl.h"
#include "ops/copy/copy_ops.h"

namespace belfry::ops {
namespace {

// Longer ranges are taken for a mistake in `delta`.
constexpr double kLongestRange = 1e12;

absl::StatusOr<std::vector<Shape>> ConstShape(const ShapeArgs& args) {
  const Tensor& value = args.attrs.Get<Tensor>("value");
  if (value.dtype() != args.attrs.Type("dtype")) {
    return absl::InvalidArgumentError(absl::StrCat("'dtype' is ", DTypeName(args.attrs.Type("dtype")),
                                                   ", but the value is ", DTypeName(value.dtype())));
  }
  return std::vector<Shape>{value.shape()};
}

absl::StatusOr<std::vector<Shape>> AttrShape(const ShapeArgs& args) {
  return std::vector<Shape>{args.attrs.Get<Shape>("shape")};
}

absl::StatusOr<std::vector<Shape>> FillShape(const ShapeArgs& args) {
  const Shape& shape = args.attrs.Get<Shape>("shape");
  if (!shape.known()) {
    return absl::InvalidArgumentError(absl::StrCat("cannot fill shape ", shape.ToString(),
                                                   ", whose extents are not all known; use ZerosLike or OnesLike"));
  }
  return std::vector<Shape>{shape};
}

absl::StatusOr<std::vector<Shape>> RangeShape(const ShapeArgs& args) {
  const double start = args.attrs.Float("start"), limit = args.attrs.Float("limit"), delta = args.attrs.Float("delta");
  const double count = std::ceil((limit - start) / delta);
  if (delta == 0 || !(std::abs(count) <= kLongestRange)) {
    return absl::InvalidArgumentError(absl::StrCat("there is no range from ", start, " to ", limit, " by ", delta));
  }
  return std::vector<Shape>{{static_cast<int64_t>(std::max(count, 0.0))}};
}

absl::StatusOr<Kernel> MakeFilled(const KernelSpec& spec, double value) {
  const TensorSpec& output = spec.outputs[0];
  return Kernel{[n = output.shape.elements(), size = SizeOf(output.dtype),
                 bits = ElementBits(value, output.dtype)](const KernelContext& context) {
    FillElements(context.outputs[0], n, size, bits);
    return absl::OkStatus();
  }};
}

template <class T>
absl::StatusOr<Kernel> MakeRange(const KernelSpec& spec) {
  return Kernel{[n = spec.outputs[0].shape.elements(), start = spec.attrs.Float("start"),
                 delta = spec.attrs.Float("delta")](const KernelContext& context) {
    T* y = context.output<T>(0);
    for (int64_t i = 0; i < n; ++i) y[i] = ConvertElement<T>(RangeElement(start, delta, i));
    return absl::OkStatus();
  }};
}

OpDef FilledLike(absl::string_view name, double value) {
  return {.name = std::string(name),
          .inputs = {{.name = "x", .shape_only = true}},
          .outputs = {{.name = "y"}},
          .types = {{"T", kAnyType}},
          .shape = UnchangedShape,
          .not_differentiable = true,
          .kernels = AnyTypeKernels([value](const KernelSpec& spec) { return MakeFilled(spec, value); })};
}

}  // namespace

Output Const(OpScope scope, const Tensor& value) {
  return scope.Add("Const", {}, {{"dtype", value.dtype()}, {"value", value.Clone()}});
}
Output Placeholder(OpScope scope, DType dtype, const Shape& shape) {
  return scope.Add("Placeholder", {}, {{"dtype", dtype}, {"shape", shape}});
}
Output Fill(OpScope scope, const Shape& shape, double value, DType dtype) {
  return scope.Add("Fill", {}, {{"T", dtype}, {"shape", shape}, {"value", value}});
}
Output ZerosLike(OpScope scope, Output x) { return scope.Add("ZerosLike", {x}); }
Output OnesLike(OpScope scope, Output x) { return scope.Add("OnesLike", {x}); }
Output Range(OpScope scope, double start, double limit, double delta, DType dtype) {
  return scope.Add("Range", {}, {{"dtype", dtype}, {"start", start}, {"limit", limit}, {"delta", delta}});
}

void RegisterConstantOps(OpRegistry& registry) {
  registry.Add({.name = "Const",
                .outputs = {{.name = "output", .type = "dtype"}},
                .types = {{"dtype", kAnyType}},
                .attrs = {{"value", Tensor(), true}},
                .shape = ConstShape,
                .not_differentiable = true,
                .role = OpRole::kConst,
                .kind = OpKind::kConst});
  registry.Add({.name = "Placeholder",
                .outputs = {{.name = "output", .type = "dtype"}},
                .types = {{"dtype", kAnyType}},
                .attrs = {{"shape", Shape(), true}},
                .shape = AttrShape,
                .not_differentiable = true,
                .kind = OpKind::kPlaceholder});
  registry.Add(
      {.name = "Fill",
       .outputs = {{.name = "y"}},
       .types = {{"T", kAnyType}},
       .attrs = {{"shape", Shape(), true}, {"value", 0.0, true}},
       .shape = FillShape,
       .not_differentiable = true,
       .role = OpRole::kFill,
       .kernels = AnyTypeKernels([](const KernelSpec& spec) { return MakeFilled(spec, spec.attrs.Float("value")); })});
  registry.Add(FilledLike("ZerosLike", 0));
  registry.Add(WithRole(FilledLike("OnesLike", 1), OpRole::kOnesLike));
  registry.Add({.name = "Range",
                .outputs = {{.name = "y", .type = "dtype"}},
                .types = {{"dtype", kNumericTypes}},
                .attrs = {{"start", 0.0}, {"limit", 0.0, true}, {"delta", 1.0}},
                .shape = RangeShape,
                .not_differentiable = true,
                .kernels = Kernels<float, double, Half, BFloat16, int32_t, int64_t, uint8_t>(
                    "CPU", [](auto tag) { return &MakeRange<typename decltype(tag)::type>; })});
}

}  // namespace belfry::ops
