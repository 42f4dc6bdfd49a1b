#include "ops/activation/activation_ops.h"
#include "ops/activation/functors.h"
#include "ops/common/op_rules_impl.h"
#include "ops/nn.h"
#include "ops/simd/math_impl.h"
#include "ops/simd/vector_impl.h"

namespace belfry::ops {
namespace {

// Parameter sources: each is built from a node's attributes, and Make<C>() returns the functor F<C>. Unary and Binary
// apply that functor to n elements.
template <template <class> class F>
struct Plain {
  static constexpr double kCost = 1;
  explicit Plain(const Attrs&) {}
  template <class C>
  F<C> Make() const {
    return F<C>();
  }
};
template <template <class> class F, int cost>
struct WithAlpha {
  static constexpr double kCost = cost;
  double alpha;
  explicit WithAlpha(const Attrs& attrs) : alpha(attrs.Float("alpha")) {}
  template <class C>
  F<C> Make() const {
    return F<C>(alpha);
  }
};
template <template <class> class F, int cost>
struct Scaled {
  static constexpr double kCost = cost;
  explicit Scaled(const Attrs&) {}
  template <class C>
  F<C> Make() const {
    return F<C>(functor::kSeluAlpha, functor::kSeluScale);
  }
};

template <class Maker>
struct Unary : Maker {
  using Maker::Maker;
  template <class C>
  void operator()(int64_t n, const C* x, C* y) const {
    const auto f = this->template Make<C>();
    if constexpr (std::is_same_v<decltype(f), const functor::Elu<C>>) {
      simd::Map<C>(n, x, y, [f](auto v) { return v < 0 ? f.negative * simd::Expm1(v) : f.positive * v; });
    } else {
      for (int64_t i = 0; i < n; ++i) y[i] = f(x[i]);
    }
  }
};
template <class Maker>
struct Binary : Maker {
  using Maker::Maker;
  template <class C>
  void operator()(int64_t n, const C* dy, const C* y, C* dx) const {
    const auto f = this->template Make<C>();
    for (int64_t i = 0; i < n; ++i) dx[i] = f(dy[i], y[i]);
  }
};

// The gradients are computed from y, so that x need not be kept. This needs y to show on which side of 0 x was, which a
// negative alpha would prevent.
absl::StatusOr<std::vector<Shape>> ActivationShape(const ShapeArgs& args) {
  if (const AttrValue* alpha = args.attrs.Find("alpha"); alpha != nullptr && !(std::get<double>(*alpha) >= 0)) {
    return absl::InvalidArgumentError(absl::StrCat("alpha must not be negative, but is ", std::get<double>(*alpha)));
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
                .elementwise = true,
                .in_place = {{0, 0}},
                .kernels = UnaryKernels<Function>()});
  registry.Add({.name = name + "Grad",
                .inputs = {{"dy"}, {"y"}},
                .outputs = {{"dx"}},
                .types = {{"T", kFloatTypes}},
                .attrs = attrs,
                .shape = ActivationShape,
                .gradient = NoSecondDerivative(),
                .elementwise = true,
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
  Register<Unary<Plain<functor::Relu>>, Binary<Plain<functor::ReluGrad>>>(registry, "Relu");
  Register<Unary<Plain<functor::Relu6>>, Binary<Plain<functor::Relu6Grad>>>(registry, "Relu6");
  Register<Unary<WithAlpha<functor::LeakyRelu, 1>>, Binary<WithAlpha<functor::LeakyReluGrad, 1>>>(registry, "LeakyRelu",
                                                                                                  {{"alpha", 0.2}});
  Register<Unary<WithAlpha<functor::Elu, 10>>, Binary<WithAlpha<functor::EluGrad, 2>>>(registry, "Elu",
                                                                                       {{"alpha", 1.0}});
  Register<Unary<Scaled<functor::Elu, 10>>, Binary<Scaled<functor::EluGrad, 2>>>(registry, "Selu");
}

}  // namespace belfry::ops
