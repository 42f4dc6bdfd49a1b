#include <cmath>
#include <numbers>
#include <type_traits>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "ops/activation/activate_impl.h"
#include "ops/activation/activation_ops.h"
#include "ops/common/op_rules_impl.h"
#include "ops/element_code.h"
#include "ops/elementwise/define_impl.h"
#include "ops/math.h"
#include "ops/nn.h"
#include "ops/simd/math_impl.h"
#include "ops/simd/vector_impl.h"

namespace belfry::ops {
namespace {

template <template <class> class Gate, class C>
void GatedGrad(int64_t n, const C* dy, const C* x, C* dx) {
  simd::Map<C>(n, dy, x, dx, [](auto slope, auto v) {
    v = functor::ClampedGate<C>(v);
    const auto g = Gate<C>::Value(v), large = simd::ScaledExpOfNegative(-simd::Abs(g)),
               e = large * simd::kScaledExpUnit<C>;
    const auto share = C(1) / (C(1) + e), one = share * (C(1) / simd::kScaledExpUnit<C>);
    // The sigmoid of g, scaled, and that of -g.
    const auto s = g < 0 ? large * share : one, rest = share * (g < 0 ? simd::Fill<decltype(e)>(C(1)) : e);
    return slope * (s * (C(1) + v * rest * Gate<C>::Slope(v)) * simd::kScaledExpUnit<C>);
  });
}

struct SiluGradFunction {
  static constexpr double kCost = 12;
  explicit SiluGradFunction(const Attrs&) {}
  template <class C>
  void operator()(int64_t n, const C* dy, const C* x, C* dx) const {
    GatedGrad<functor::SiluGate>(n, dy, x, dx);
  }
};

// GELU by the error function or, if the attribute "approximate" says so, by tanh.
std::vector<KernelDef> GeluKernels() {
  return Kernels<float, double, Half, BFloat16>("CPU", [](auto tag) -> KernelFactory {
    using T = typename decltype(tag)::type;
    return [](const KernelSpec& spec) -> absl::StatusOr<Kernel> {
      if (spec.attrs.Bool("approximate")) return MapKernel<T>(spec, functor::GeluTanh<Compute<T>>());
      return MapKernel<T>(spec, functor::Gelu<Compute<T>>());
    };
  });
}

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

struct SoftplusGradFunction {
  static constexpr double kCost = 12;
  explicit SoftplusGradFunction(const Attrs&) {}
  template <class C>
  void operator()(int64_t n, const C* dy, const C* y, C* dx) const {
    simd::Map<C>(n, dy, y, dx, [](auto slope, auto v) { return slope * -simd::Expm1(-v); });
  }
};

// The functor of the op's name or, if the attribute "approximate" says so, GeluTanh or GeluTanhGrad.
ElementCodeFactory CodeOf(const std::string& op) {
  return [exact = ElementMap(absl::StrCat("functor::", op, "<{T}>{}")),
          approximate = ElementMap(op == "Gelu" ? "functor::GeluTanh<{T}>{}" : "functor::GeluTanhGrad<{T}>{}")](
             const KernelSpec& spec) {
    return spec.attrs.Find("approximate") != nullptr && spec.attrs.Bool("approximate") ? approximate(spec)
                                                                                       : exact(spec);
  };
}

// v, or the nearest number to it whose exponentials are not 0 or infinite; slopes are constant beyond.
Output Bounded(const Scope& scope, Output v) { return Minimum(scope, Maximum(scope, v, -40), 40); }

// The second derivative of x s with s = sigmoid(x): s (1 - s) (2 + x (1 - 2 s)).
Output SiluCurvature(const Scope& scope, const Node& /*node*/, Output v) {
  const Output x = Bounded(scope, v), s = Sigmoid(scope, x);
  const Output odd = Sub(scope, 1, Mul(scope, 2, s));
  return Mul(scope, Mul(scope, s, Sub(scope, 1, s)), Add(scope, 2, Mul(scope, x, odd)));
}
// The second derivative of GELU is (2 - x^2) times the density of the normal distribution; with tanh, which is x s with
// s = sigmoid(g) and g = a x + b x^3, it is s (1 - s) (2 g' + x (g'' + (1 - 2 s) g'^2)).
Output GeluCurvature(const Scope& scope, const Node& node, Output v) {
  const Output x = Bounded(scope, v), square = Square(scope, x);
  if (!node.attrs().Bool("approximate")) {
    const Output density = Mul(scope, 1 / std::sqrt(2 * std::numbers::pi), Exp(scope, Mul(scope, -0.5, square)));
    return Mul(scope, density, Sub(scope, 2, square));
  }
  const double a = 2 * std::sqrt(2 / std::numbers::pi), b = 0.044715 * a;
  const Output s = Sigmoid(scope, Mul(scope, x, Add(scope, a, Mul(scope, b, square))));
  const Output slope = Add(scope, a, Mul(scope, 3 * b, square));
  const Output odd = Mul(scope, Sub(scope, 1, Mul(scope, 2, s)), Square(scope, slope));
  const Output inner = Add(scope, Mul(scope, 2, slope), Mul(scope, x, Add(scope, Mul(scope, 6 * b, x), odd)));
  return Mul(scope, Mul(scope, s, Sub(scope, 1, s)), inner);
}
// The derivative of the slope 1 - exp(-y).
Output SoftplusCurvature(const Scope& scope, const Node& /*node*/, Output y) { return Exp(scope, Neg(scope, y)); }

template <class GradFunction>
void Register(OpRegistry& registry, const std::string& name, std::vector<KernelDef> kernels, bool from_output,
              Curvature curvature, std::vector<AttrDef> attrs = {}) {
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
                .element_code = CodeOf(name),
                .in_place = {{0, 0}},
                .kernels = std::move(kernels)});
  registry.Add({.name = name + "Grad",
                .inputs = {{"dy"}, {from_output ? "y" : "x"}},
                .outputs = {{"dx"}},
                .types = {{"T", kFloatTypes}},
                .attrs = attrs,
                .shape = SameAsAll,
                .gradient = GradientOfSlope(name + "Grad", passed, std::move(curvature)),
                .elementwise = true,
                .element_code = CodeOf(name + "Grad"),
                .in_place = {{0, 0}, {1, 0}},
                .kernels = BinaryKernels<GradFunction>()});
}

absl::StatusOr<Kernel> MakeFrom(const std::vector<KernelDef>& kernels, const KernelSpec& spec) {
  const auto kernel = absl::c_find_if(kernels, [&](const KernelDef& k) { return k.dtype == spec.inputs[0].dtype; });
  return kernel->make(spec);
}

}  // namespace

absl::StatusOr<Kernel> MakeGelu(const KernelSpec& spec) { return MakeFrom(GeluKernels(), spec); }
absl::StatusOr<Kernel> MakeGeluGrad(const KernelSpec& spec) {
  return MakeFrom(BinaryKernels<GeluGradFunction>(), spec);
}

Output Gelu(OpScope scope, Output x, bool approximate) {
  return scope.Add("Gelu", {x}, {{"approximate", approximate}});
}
Output Silu(OpScope scope, Output x) { return scope.Add("Silu", {x}); }
Output Softplus(OpScope scope, Output x) { return scope.Add("Softplus", {x}); }

void RegisterSmoothActivations(OpRegistry& registry) {
  Register<GeluGradFunction>(registry, "Gelu", GeluKernels(), /*from_output=*/false, GeluCurvature,
                             {{"approximate", false}});
  Register<SiluGradFunction>(registry, "Silu", FloatMaps<functor::Silu>(), /*from_output=*/false, SiluCurvature);
  Register<SoftplusGradFunction>(registry, "Softplus", FloatMaps<functor::Softplus>(), /*from_output=*/true,
                                 SoftplusCurvature);
}

}  // namespace belfry::ops
