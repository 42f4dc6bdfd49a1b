#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

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

// True if T holds a range of n > 0 elements: integers without a fraction and within their limits; floats that are
// finite, and no closer to each other than the numbers of T.
template <class T>
bool HoldsRange(double start, double delta, int64_t n) {
  if constexpr (std::is_integral_v<T>) {
    constexpr double kWhole = 0x1p63;
    if (std::trunc(start) != start || std::trunc(delta) != delta) return false;
    if (!(start >= -kWhole && start < kWhole) || (n > 1 && !(delta >= -kWhole && delta < kWhole))) return false;
    int64_t last = n - 1;
    if (n > 1 && __builtin_mul_overflow(last, static_cast<int64_t>(delta), &last)) return false;
    if (__builtin_add_overflow(last, static_cast<int64_t>(start), &last)) return false;
    const auto holds = [](int64_t x) {
      return x >= std::numeric_limits<T>::min() && x <= std::numeric_limits<T>::max();
    };
    return holds(static_cast<int64_t>(start)) && holds(last);
  } else {
    using Limits = std::numeric_limits<T>;
    const double largest = std::max(std::abs(start), std::abs(RangeElement(start, delta, n - 1)));
    if (!std::isfinite(static_cast<double>(ConvertElement<T>(largest)))) return false;
    int exponent = 0;
    std::frexp(std::nextafter(largest, 0), &exponent);
    const double spacing = std::ldexp(1.0, std::max<int>(exponent, int{Limits::min_exponent}) - Limits::digits);
    return n == 1 || std::abs(delta) >= spacing;
  }
}

bool HoldsRange(DType dtype, double start, double delta, int64_t n) {
  switch (dtype) {
    case DType::kFloat32: return HoldsRange<float>(start, delta, n);
    case DType::kFloat64: return HoldsRange<double>(start, delta, n);
    case DType::kFloat16: return HoldsRange<Half>(start, delta, n);
    case DType::kBFloat16: return HoldsRange<BFloat16>(start, delta, n);
    case DType::kInt32: return HoldsRange<int32_t>(start, delta, n);
    case DType::kInt64: return HoldsRange<int64_t>(start, delta, n);
    case DType::kUInt8: return HoldsRange<uint8_t>(start, delta, n);
    case DType::kBool: return false;
  }
  return false;
}

absl::StatusOr<std::vector<Shape>> RangeShape(const ShapeArgs& args) {
  const double start = args.attrs.Float("start"), limit = args.attrs.Float("limit"), delta = args.attrs.Float("delta");
  const double count = std::ceil((limit - start) / delta);
  if (delta == 0 || !(std::abs(count) <= kLongestRange)) {
    return absl::InvalidArgumentError(absl::StrCat("there is no range from ", start, " to ", limit, " by ", delta));
  }
  const auto n = static_cast<int64_t>(std::max(count, 0.0));
  const DType dtype = args.attrs.Type("dtype");
  if (n > 0 && !HoldsRange(dtype, start, delta, n)) {
    return absl::InvalidArgumentError(absl::StrCat(DTypeName(dtype), " cannot hold the ", n, " numbers from ", start,
                                                   " to ", limit, " by ", delta, "; choose another dtype"));
  }
  return std::vector<Shape>{{n}};
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
  using R = RangeMath<T>;
  const int64_t n = spec.outputs[0].shape.elements();
  // Numbers that are not used may be beyond R.
  const R start = n > 0 ? static_cast<R>(spec.attrs.Float("start")) : R(0);
  const R delta = n > 1 ? static_cast<R>(spec.attrs.Float("delta")) : R(0);
  return Kernel{[=](const KernelContext& context) {
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
