#include <cmath>

#include "ops/nn.h"
#include "ops/nn/nn_impl.h"
#include "ops/nn/nn_ops.h"

namespace belfry::ops {
namespace {

// Of Klambauer et al. (2017), "Self-Normalizing Neural Networks".
constexpr double kSeluScale = 1.0507009873554805, kSeluAlpha = 1.6732632423543772;

// Comparisons are such that NaN passes through.
struct ReluFunction {
  static constexpr double kCost = 1;
  explicit ReluFunction(const Attrs&) {}
  template <class C>
  void operator()(int64_t n, const C* x, C* y) const {
    for (int64_t i = 0; i < n; ++i) y[i] = x[i] < 0 ? C(0) : x[i];
  }
};

struct ReluGradFunction {
  static constexpr double kCost = 1;
  explicit ReluGradFunction(const Attrs&) {}
  template <class C>
  void operator()(int64_t n, const C* dy, const C* y, C* dx) const {
    for (int64_t i = 0; i < n; ++i) dx[i] = y[i] > 0 ? dy[i] : C(0);
  }
};

struct Relu6Function {
  static constexpr double kCost = 1;
  explicit Relu6Function(const Attrs&) {}
  template <class C>
  void operator()(int64_t n, const C* x, C* y) const {
    for (int64_t i = 0; i < n; ++i) {
      const C low = x[i] < 0 ? C(0) : x[i];
      y[i] = low > 6 ? C(6) : low;
    }
  }
};

struct Relu6GradFunction {
  static constexpr double kCost = 1;
  explicit Relu6GradFunction(const Attrs&) {}
  template <class C>
  void operator()(int64_t n, const C* dy, const C* y, C* dx) const {
    for (int64_t i = 0; i < n; ++i) dx[i] = ((y[i] > 0) & (y[i] < 6)) ? dy[i] : C(0);
  }
};

struct LeakyReluFunction {
  static constexpr double kCost = 1;
  double alpha;
  explicit LeakyReluFunction(const Attrs& attrs) : alpha(attrs.Float("alpha")) {}
  template <class C>
  void operator()(int64_t n, const C* x, C* y) const {
    const C slope = static_cast<C>(alpha);
    for (int64_t i = 0; i < n; ++i) y[i] = x[i] < 0 ? slope * x[i] : x[i];
  }
};

struct LeakyReluGradFunction {
  static constexpr double kCost = 1;
  double alpha;
  explicit LeakyReluGradFunction(const Attrs& attrs) : alpha(attrs.Float("alpha")) {}
  template <class C>
  void operator()(int64_t n, const C* dy, const C* y, C* dx) const {
    const C slope = static_cast<C>(alpha);
    for (int64_t i = 0; i < n; ++i) dx[i] = y[i] > 0 ? dy[i] : slope * dy[i];
  }
};

// y = scale x above 0, scale alpha (exp(x) - 1) below.
template <class C>
void Exponential(int64_t n, const C* x, double scale, double alpha, C* y) {
  const C positive = static_cast<C>(scale), negative = static_cast<C>(scale * alpha);
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] < 0 ? negative * std::expm1(x[i]) : positive * x[i];
}
// Below 0 the slope is scale alpha exp(x) = y + scale alpha.
template <class C>
void ExponentialGrad(int64_t n, const C* dy, const C* y, double scale, double alpha, C* dx) {
  const C positive = static_cast<C>(scale), negative = static_cast<C>(scale * alpha);
  for (int64_t i = 0; i < n; ++i) dx[i] = dy[i] * (y[i] < 0 ? y[i] + negative : positive);
}

struct EluFunction {
  static constexpr double kCost = 10;
  double alpha;
  explicit EluFunction(const Attrs& attrs) : alpha(attrs.Float("alpha")) {}
  template <class C>
  void operator()(int64_t n, const C* x, C* y) const {
    Exponential(n, x, 1, alpha, y);
  }
};

struct EluGradFunction {
  static constexpr double kCost = 2;
  double alpha;
  explicit EluGradFunction(const Attrs& attrs) : alpha(attrs.Float("alpha")) {}
  template <class C>
  void operator()(int64_t n, const C* dy, const C* y, C* dx) const {
    ExponentialGrad(n, dy, y, 1, alpha, dx);
  }
};

struct SeluFunction {
  static constexpr double kCost = 10;
  explicit SeluFunction(const Attrs&) {}
  template <class C>
  void operator()(int64_t n, const C* x, C* y) const {
    Exponential(n, x, kSeluScale, kSeluAlpha, y);
  }
};

struct SeluGradFunction {
  static constexpr double kCost = 2;
  explicit SeluGradFunction(const Attrs&) {}
  template <class C>
  void operator()(int64_t n, const C* dy, const C* y, C* dx) const {
    ExponentialGrad(n, dy, y, kSeluScale, kSeluAlpha, dx);
  }
};

// The gradients look at y, so that x need not be kept: y must tell on which side of 0 x was.
absl::StatusOr<std::vector<Shape>> ActivationShape(const ShapeArgs& args) {
  if (const AttrValue* alpha = args.attrs.Find("alpha"); alpha != nullptr && !(std::get<double>(*alpha) >= 0)) {
    return absl::InvalidArgumentError(absl::StrCat("alpha must not be negative, and is ", std::get<double>(*alpha)));
  }
  return SameAsAll(args);
}

template <class Function, class GradFunction>
void Register(OpRegistry& registry, const std::string& name, std::vector<AttrDef> attrs = {}) {
  std::vector<std::string> passed;
  for (const AttrDef& attr : attrs) passed.push_back(attr.name);
  registry.Add({.name = name,
                .inputs = {{"x"}},
                .outputs = {{"y"}},
                .types = {{"T", kFloatTypes}},
                .attrs = attrs,
                .shape = ActivationShape,
                .gradient = GradientFrom(name + "Grad", /*from_output=*/true, passed),
                .in_place = {{0, 0}},
                .kernels = UnaryKernels<Function>()});
  registry.Add({.name = name + "Grad",
                .inputs = {{"dy"}, {"y"}},
                .outputs = {{"dx"}},
                .types = {{"T", kFloatTypes}},
                .attrs = attrs,
                .shape = ActivationShape,
                .gradient = NoSecondDerivative(),
                .in_place = {{0, 0}, {1, 0}},
                .kernels = BinaryKernels<GradFunction>()});
}

}  // namespace

Output Relu(OpScope scope, Output x) { return scope.Add("Relu", {x}); }
Output Relu6(OpScope scope, Output x) { return scope.Add("Relu6", {x}); }
Output LeakyRelu(OpScope scope, Output x, double alpha) { return scope.Add("LeakyRelu", {x}, {{"alpha", alpha}}); }
Output Elu(OpScope scope, Output x, double alpha) { return scope.Add("Elu", {x}, {{"alpha", alpha}}); }
Output Selu(OpScope scope, Output x) { return scope.Add("Selu", {x}); }

void RegisterActivations(OpRegistry& registry) {
  Register<ReluFunction, ReluGradFunction>(registry, "Relu");
  Register<Relu6Function, Relu6GradFunction>(registry, "Relu6");
  Register<LeakyReluFunction, LeakyReluGradFunction>(registry, "LeakyRelu", {{"alpha", 0.2}});
  Register<EluFunction, EluGradFunction>(registry, "Elu", {{"alpha", 1.0}});
  Register<SeluFunction, SeluGradFunction>(registry, "Selu");
}

}  // namespace belfry::ops
