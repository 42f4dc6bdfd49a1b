#include <cmath>

#include "ops/nn.h"
#include "ops/nn/nn_impl.h"
#include "ops/nn/nn_ops.h"

namespace belfry::ops {
namespace {

// Beyond these the functions below equal their limits, also in double, where infinities would give inf * 0.
constexpr double kGateLimit = 1000, kErfLimit = 40;

template <class C>
C Clamp(C x, double limit) {
  const C high = static_cast<C>(limit);
  return x < -high ? -high : x > high ? high : x;
}

// The gates g of y = x sigmoid(g(x)).
struct SiluGate {
  template <class C>
  static C Value(C x) {
    return x;
  }
  template <class C>
  static C Slope(C) {
    return 1;
  }
};
// x / 2 (1 + tanh(u)) = x sigmoid(2 u), u = sqrt(2 / pi) (x + 0.044715 x^3).
struct GeluTanhGate {
  static constexpr double kLinear = 1.5957691216057308, kCubic = kLinear * 0.044715;
  template <class C>
  static C Value(C x) {
    return x * (C(kLinear) + C(kCubic) * x * x);
  }
  template <class C>
  static C Slope(C x) {
    return C(kLinear) + C(3 * kCubic) * x * x;
  }
};

template <class Gate, class C>
void Gated(int64_t n, const C* x, C* y) {
  alignas(64) C e[kBlock];
  for (int64_t begin = 0; begin < n; begin += kBlock, x += kBlock, y += kBlock) {
    const int64_t size = std::min(kBlock, n - begin);
    for (int64_t i = 0; i < size; ++i) e[i] = -Gate::Value(Clamp(x[i], kGateLimit));
    ArrayMap<C> map(e, size);
    map = map.exp();
    for (int64_t i = 0; i < size; ++i) y[i] = (x[i] < C(-kGateLimit) ? C(-kGateLimit) : x[i]) / (1 + e[i]);
  }
}

template <class Gate, class C>
void GatedGrad(int64_t n, const C* dy, const C* x, C* dx) {
  alignas(64) C e[kBlock];
  for (int64_t begin = 0; begin < n; begin += kBlock, dy += kBlock, x += kBlock, dx += kBlock) {
    const int64_t size = std::min(kBlock, n - begin);
    for (int64_t i = 0; i < size; ++i) e[i] = -Gate::Value(Clamp(x[i], kGateLimit));
    ArrayMap<C> map(e, size);
    map = map.exp();
    for (int64_t i = 0; i < size; ++i) {
      const C v = Clamp(x[i], kGateLimit), s = 1 / (1 + e[i]);
      dx[i] = dy[i] * s * (1 + v * (1 - s) * Gate::Slope(v));
    }
  }
}

struct SiluFunction {
  static constexpr double kCost = 10;
  explicit SiluFunction(const Attrs&) {}
  template <class C>
  void operator()(int64_t n, const C* x, C* y) const {
    Gated<SiluGate>(n, x, y);
  }
};

struct SiluGradFunction {
  static constexpr double kCost = 12;
  explicit SiluGradFunction(const Attrs&) {}
  template <class C>
  void operator()(int64_t n, const C* dy, const C* x, C* dx) const {
    GatedGrad<SiluGate>(n, dy, x, dx);
  }
};

struct GeluFunction {
  static constexpr double kCost = 30;
  bool approximate;
  explicit GeluFunction(const Attrs& attrs) : approximate(attrs.Bool("approximate")) {}
  template <class C>
  void operator()(int64_t n, const C* x, C* y) const {
    if (approximate) return Gated<GeluTanhGate>(n, x, y);
    for (int64_t i = 0; i < n; ++i) {
      const C v = x[i] < C(-kErfLimit) ? C(-kErfLimit) : x[i];
      y[i] = v * C(0.5) * std::erfc(v * C(-M_SQRT1_2));
    }
  }
};

struct GeluGradFunction {
  static constexpr double kCost = 40;
  bool approximate;
  explicit GeluGradFunction(const Attrs& attrs) : approximate(attrs.Bool("approximate")) {}
  template <class C>
  void operator()(int64_t n, const C* dy, const C* x, C* dx) const {
    if (approximate) return GatedGrad<GeluTanhGate>(n, dy, x, dx);
    constexpr double kInverseSqrtTwoPi = 0.39894228040143268;
    for (int64_t i = 0; i < n; ++i) {
      const C v = Clamp(x[i], kErfLimit);
      const C density = C(kInverseSqrtTwoPi) * std::exp(C(-0.5) * v * v);
      dx[i] = dy[i] * (C(0.5) * std::erfc(v * C(-M_SQRT1_2)) + v * density);
    }
  }
};

// log(1 + exp(x)) = max(x, 0) + log(1 + exp(-|x|)), which neither overflows nor loses small results.
struct SoftplusFunction {
  static constexpr double kCost = 20;
  explicit SoftplusFunction(const Attrs&) {}
  template <class C>
  void operator()(int64_t n, const C* x, C* y) const {
    alignas(64) C e[kBlock];
    for (int64_t begin = 0; begin < n; begin += kBlock, x += kBlock, y += kBlock) {
      const int64_t size = std::min(kBlock, n - begin);
      ArrayMap<C> map(e, size);
      map = (-ConstArrayMap<C>(x, size).abs()).exp().log1p();
      for (int64_t i = 0; i < size; ++i) y[i] = (x[i] > 0 ? x[i] : C(0)) + e[i];
    }
  }
};

// sigmoid(x) = 1 - exp(-y).
struct SoftplusGradFunction {
  static constexpr double kCost = 12;
  explicit SoftplusGradFunction(const Attrs&) {}
  template <class C>
  void operator()(int64_t n, const C* dy, const C* y, C* dx) const {
    ArrayMap<C>(dx, n) = ConstArrayMap<C>(dy, n) * -(-ConstArrayMap<C>(y, n)).expm1();
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
                .in_place = {{0, 0}},
                .kernels = UnaryKernels<Function>()});
  registry.Add({.name = name + "Grad",
                .inputs = {{"dy"}, {from_output ? "y" : "x"}},
                .outputs = {{"dx"}},
                .types = {{"T", kFloatTypes}},
                .attrs = attrs,
                .shape = SameAsAll,
                .gradient = NoSecondDerivative(),
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
