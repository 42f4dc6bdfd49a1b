// Definitions of element-wise ops: what all unary ones share, and all binary ones.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "framework/graph/op_def.h"
#include "framework/graph/scope.h"
#include "ops/elementwise/elementwise_impl.h"

namespace belfry::ops {

// dx of y = f(x).
using UnaryGradient = Output (*)(const Scope& scope, Output x, Output y, Output dy);
// {da, db} of y = f(a, b) in the shape of y; they are then summed to the operands' shapes.
using BinaryGradient = std::vector<Output> (*)(const Scope& scope, Output a, Output b, Output y, Output dy);

// The output has the shape of input 0.
absl::StatusOr<std::vector<Shape>> SameShape(const ShapeArgs& args);
// The output has the shape to which inputs 0 and 1 broadcast.
absl::StatusOr<std::vector<Shape>> BroadcastShape(const ShapeArgs& args);

// y = f(x). A null gradient: not differentiable. `out`: the output's type, "T" or a dtype's name.
OpDef UnaryOp(absl::string_view name, absl::Span<const DType> types, std::vector<KernelDef> kernels,
              UnaryGradient gradient, absl::string_view out = "T");
// y = f(a, b), broadcast.
OpDef BinaryOp(absl::string_view name, absl::Span<const DType> types, std::vector<KernelDef> kernels,
               BinaryGradient gradient, absl::string_view out = "T");

// CPU kernels of F<Compute<T>> for each T, from input 0, or inputs 0 and 1, to output 0, which is of the same type.
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
