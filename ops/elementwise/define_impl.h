// Definitions of unary and binary element-wise ops.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "framework/graph/op_def.h"
#include "framework/graph/scope.h"
#include "ops/elementwise/elementwise_impl.h"

namespace belfry::ops {

// Gradient of y = f(x): returns dx.
using UnaryGradient = Output (*)(const Scope& scope, Output x, Output y, Output dy);
// Gradient of y = f(a, b): returns {da, db} in the shape of y; they are then summed to the operands' shapes.
using BinaryGradient = std::vector<Output> (*)(const Scope& scope, Output a, Output b, Output y, Output dy);

// Shape rule: the shape of input 0.
absl::StatusOr<std::vector<Shape>> SameShape(const ShapeArgs& args);
// Shape rule: the shape to which inputs 0 and 1 broadcast.
absl::StatusOr<std::vector<Shape>> BroadcastShape(const ShapeArgs& args);

// y = f(x). A null gradient means not differentiable. `out` is the output's type: "T" or the name of a dtype. For GPUs
// f is the functor that has the op's name, unless OpDef::element_code is replaced.
OpDef UnaryOp(absl::string_view name, absl::Span<const DType> types, std::vector<KernelDef> kernels,
              UnaryGradient gradient, absl::string_view out = "T");
// y = f(a, b), with broadcasting.
OpDef BinaryOp(absl::string_view name, absl::Span<const DType> types, std::vector<KernelDef> kernels,
               BinaryGradient gradient, absl::string_view out = "T");

// CPU kernels that apply F<Compute<T>> to input 0, or to inputs 0 and 1, for each T; output 0 has the same type.
template <template <class> class F, class... Ts>
std::vector<KernelDef> MapKernels() {
  return Kernels<Ts...>("CPU", [](auto tag) -> KernelFactory {
    using T = typename decltype(tag)::type;
    return [](const KernelSpec& spec) -> absl::StatusOr<Kernel> { return MapKernel<T>(spec, F<Compute<T>>()); };
  });
}
template <template <class> class F, class... Ts>
std::vector<KernelDef> ZipKernels() {
  return Kernels<Ts...>("CPU", [](auto tag) -> KernelFactory {
    using T = typename decltype(tag)::type;
    return [](const KernelSpec& spec) { return ZipKernel<T>(spec, F<Compute<T>>()); };
  });
}
template <template <class> class F>
std::vector<KernelDef> FloatMaps() {
  return MapKernels<F, float, double, Half, BFloat16>();
}
template <template <class> class F>
std::vector<KernelDef> FloatZips() {
  return ZipKernels<F, float, double, Half, BFloat16>();
}
template <template <class> class F>
std::vector<KernelDef> NumericMaps() {
  return MapKernels<F, float, double, Half, BFloat16, int32_t, int64_t, uint8_t>();
}
template <template <class> class F>
std::vector<KernelDef> NumericZips() {
  return ZipKernels<F, float, double, Half, BFloat16, int32_t, int64_t, uint8_t>();
}

}  // namespace belfry::ops
