#include <type_traits>

#include "ops/activation/activation_ops.h"
#include "ops/activation/functors.h"
#include "ops/activation/gelu_impl.h"
#include "ops/common/op_rules_impl.h"
#include "ops/nn.h"
#include "ops/simd/math_impl.h"
#include "ops/simd/vector_impl.h"

namespace belfry::ops {
namespace {

// x between -kGateLimit and kGateLimit; NaN stays.
template <class C, class V>
V Clamped(V x) {
  const V low = simd::Fill<V>(-C(functor::kGateLimit)), high = -low;
  x = x < low ? low : x;
  return x > high ? high : x;
}

// With exp(-|g|) nothing overflows. Where g < 0 it is a factor of the result, and may be subnormal where the result is
// not: it comes scaled up, and the result is scaled down.
template <template <class> class Gate, class C>
void Gated(int64_t n, const C* x, C* y) {
  simd::Map<C>(n, x, y, [](auto v) {
    const auto g = Gate<C>::Value(Clamped<C>(v)), e = simd::ScaledExpOfNegative(-simd::Abs(g));
    const auto bounded = v < -C(functor::kGateLimit) ? Clamped<C>(v) : v;
    return (g < 0 ? bounded * e * simd::kScaledExpUnit<C> : bounded) / (C(1) + e * simd::kScaledExpUnit<C>);
  });
}

template <template <class> class Gate, class C>
void GatedGrad(int64_t n, const C* dy, const C* x, C* dx) {
  simd::Map<C>(n, dy, x, dx, [](auto slope, auto v) {
    v = Clamped<C>(v);
    const auto g = Gate<C>::Value(v), large = simd::ScaledExpOfNegative(-simd::Abs(g)),
               e = large * simd::kScaledExpUnit<C>;
    const auto share = C(1) / (C(1) + e), one = share * (C(1) / simd::kScaledExpUnit<C>);
    // The sigmoid of g, scaled, and that of -g.
    const auto s = g < 0 ? large * share : one, rest = share * (g < 0 ? simd::Fill<decltype(e)>(C(1)) : e);
    return slope * (s * (C(1) + v * rest * Gate<C>::Slope(v)) * simd::kScaledExpUnit<C>);
  });
}

struct SiluFunction {
  static constexpr double kCost = 10;
  explicit SiluFunction(const Attrs&) {}
  template <class C>
  void operator()(int64_t n, const C* x, C* y) const {
    Gated<functor::SiluGate>(n, x, y);
  }
};

struct SiluGradFunction {
  static constexpr double kCost = 12;
  explicit SiluGradFunction(const Attrs&) {}
  template <class C>
  void operator()(int64_t n, const C* dy, const C* x, C* dx) const {
    GatedGrad<functor::SiluGate>(n, dy, x, dx);
  }
};

struct GeluFunction {
  static constexpr double kCost = 12;
  bool approximate;
  explicit GeluFunction(const Attrs& attrs) : approximate(attrs.Bool("approximate")) {}
  template <class C>
  void operator()(int64_t n, const C* x, C* y) const {
    if (approximate) return Gated<functor::GeluTanhGate>(n, x, y);
    if constexpr (std::is_same_v<C, float>) {
      simd::Map<C>(n, x, y, [](auto v) { return gelu::Value(v); });
    } else {
      for (int64_t i = 0; i < n; ++i) y[i] = functor::Gelu<C>()(x[i]);
    }
  }
};

struct GeluGradFunction {
  static constexpr double kCost = 14;
  bool approximate;
  explicit GeluGradFunction(const Attrs& attrs) : approximate(attrs.Bool("approximate")) {}
  template <class C>
  void operator()(int64_t n, const C* dy, const C* x, C* dx) const {
    if (approximate) return GatedGrad<functor::GeluTanhGate>(n, dy, x, dx);
    if constexpr (std::is_same_v<C, float>) {
      simd::Map<C>(n, dy, x, dx, [](auto slope, auto v) { return slope * gelu::Slope(v); });
    } else {
      for (int64_t i = 0; i < n; ++i) dx[i] = functor::GeluGrad<C>()(dy[i], x[i]);
    }
  }
};

struct SoftplusFunction {
  static constexpr double kCost = 20;
  explicit SoftplusFunction(const Attrs&) {}
  template <class C>
  void operator()(int64_t n, const C* x, C* y) const {
    simd::Map<C>(n, x, y, [](auto v) { return (v > 0 ? v : decltype(v){}) + simd::SoftplusTail(v); });
  }
};

struct SoftplusGradFunction {
  static constexpr double kCost = 12;
  explicit SoftplusGradFunction(const Attrs&) {}
  template <class C>
  void operator()(int64_t n, const C* dy, const C* y, C* dx) const {
    simd::Map<C>(n, dy, y, dx, [](auto slope, auto v) { return slope * -simd::Expm1(-v); });
  }
};

template <class Function, class GradFunction>
void Register(OpRegistry& registry, const std::string& name, bool from_output, std::vector<AttrDef> attrs = {}) {
  std::vector<std::string> passed;
  for (const AttrDef& attr : attrs) passed.push_back(attr.name);
  registry.Add({.name = name,
                .inputs = {{"x"}},
                .outputs = {{"y"}},
                .types = {{"T", kFloatTypes}},
                .attrs = attrs,
                .shape = SameAsAll,
                .gradient = GradientFrom(name + "Grad", from_output, passed),
                .elementwise = true,
                .in_place = {{0, 0}},
                .kernels = UnaryKernels<Function>()});
  registry.Add({.name = name + "Grad",
                .inputs = {{"dy"}, {from_output ? "y" : "x"}},
                .outputs = {{"dx"}},
                .types = {{"T", kFloatTypes}},
                .attrs = attrs,
                .shape = SameAsAll,
                .gradient = NoSecondDerivative(),
                .elementwise = true,
                .in_place = {{0, 0}, {1, 0}},
                .kernels = BinaryKernels<GradFunction>()});
}

}  // namespace

Output Gelu(OpScope scope, Output x, bool approximate) {
  return scope.Add("Gelu", {x}, {{"approximate", approximate}});
}
Output Silu(OpScope scope, Output x) { return scope.Add("Silu", {x}); }
Output Softplus(OpScope scope, Output x) { return scope.Add("Softplus", {x}); }

void RegisterSmoothActivations(OpRegistry& registry) {
  Register<GeluFunction, GeluGradFunction>(registry, "Gelu", /*from_output=*/false, {{"approximate", false}});
  Register<SiluFunction, SiluGradFunction>(registry, "Silu", /*from_output=*/false);
  Register<SoftplusFunction, SoftplusGradFunction>(registry, "Softplus", /*from_output=*/true);
}

}  // namespace belfry::ops
