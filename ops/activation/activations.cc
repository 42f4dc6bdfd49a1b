#include <utility>

#include "absl/strings/str_cat.h"
#include "ops/activation/activate_impl.h"
#include "ops/activation/activation_ops.h"
#include "ops/array.h"
#include "ops/common/op_rules_impl.h"
#include "ops/element_code.h"
#include "ops/elementwise/define_impl.h"
#include "ops/math.h"
#include "ops/nn.h"

namespace belfry::ops {
namespace {

// Kernels that apply F, made with the attribute "alpha".
template <template <class> class F>
std::vector<KernelDef> MapsOfAlpha() {
  return Kernels<float, double, Half, BFloat16>("CPU", [](auto tag) -> KernelFactory {
    using T = typename decltype(tag)::type;
    return [](const KernelSpec& spec) -> absl::StatusOr<Kernel> {
      return MapKernel<T>(spec, F<Compute<T>>(spec.attrs.Float("alpha")));
    };
  });
}
template <template <class> class F>
std::vector<KernelDef> ZipsOfAlpha() {
  return Kernels<float, double, Half, BFloat16>("CPU", [](auto tag) -> KernelFactory {
    using T = typename decltype(tag)::type;
    return [](const KernelSpec& spec) { return ZipKernel<T>(spec, F<Compute<T>>(spec.attrs.Float("alpha"))); };
  });
}

// The gradients are computed from y, so that x need not be kept. This needs y to show on which side of 0 x was, which a
// negative alpha would prevent.
absl::StatusOr<std::vector<Shape>> ActivationShape(const ShapeArgs& args) {
  if (const AttrValue* alpha = args.attrs.Find("alpha"); alpha != nullptr && !(std::get<double>(*alpha) >= 0)) {
    return absl::InvalidArgumentError(absl::StrCat("alpha must not be negative, but is ", std::get<double>(*alpha)));
  }
  return SameAsAll(args);
}

// The derivative by y of the slope of ELU and SELU, which is y and a constant below 0.
Output OneBelowZero(const Scope& scope, const Node& /*node*/, Output y) {
  return Cast(scope, Less(scope, y, 0), y.dtype());
}

void Register(OpRegistry& registry, const std::string& name, std::vector<KernelDef> kernels,
              std::vector<KernelDef> grad_kernels, std::vector<AttrDef> attrs = {}, Curvature curvature = nullptr) {
  std::vector<std::string> passed;
  for (const AttrDef& attr : attrs) passed.push_back(attr.name);
  const char* const made = attrs.empty() ? "<{T}>{}" : "<{T}>({alpha})";
  registry.Add({.name = name,
                .inputs = {{"x"}},
                .outputs = {{"y"}},
                .types = {{"T", kFloatTypes}},
                .attrs = attrs,
                .shape = ActivationShape,
                .gradient = GradientFrom(name + "Grad", /*from_output=*/true, passed),
                .elementwise = true,
                .element_code = ElementMap(absl::StrCat("functor::", name, made)),
                .in_place = {{0, 0}},
                .kernels = std::move(kernels)});
  registry.Add({.name = name + "Grad",
                .inputs = {{"dy"}, {"y"}},
                .outputs = {{"dx"}},
                .types = {{"T", kFloatTypes}},
                .attrs = attrs,
                .shape = ActivationShape,
                .gradient = GradientOfSlope(name + "Grad", passed, std::move(curvature)),
                .elementwise = true,
                .element_code = ElementMap(absl::StrCat("functor::", name, "Grad", made)),
                .in_place = {{0, 0}, {1, 0}},
                .kernels = std::move(grad_kernels)});
}

}  // namespace

Output Relu(OpScope scope, Output x) { return scope.Add("Relu", {x}); }
Output Relu6(OpScope scope, Output x) { return scope.Add("Relu6", {x}); }
Output LeakyRelu(OpScope scope, Output x, double alpha) { return scope.Add("LeakyRelu", {x}, {{"alpha", alpha}}); }
Output Elu(OpScope scope, Output x, double alpha) { return scope.Add("Elu", {x}, {{"alpha", alpha}}); }
Output Selu(OpScope scope, Output x) { return scope.Add("Selu", {x}); }

void RegisterActivations(OpRegistry& registry) {
  Register(registry, "Relu", FloatMaps<functor::Relu>(), FloatZips<functor::ReluGrad>());
  Register(registry, "Relu6", FloatMaps<functor::Relu6>(), FloatZips<functor::Relu6Grad>());
  Register(registry, "LeakyRelu", MapsOfAlpha<functor::LeakyRelu>(), ZipsOfAlpha<functor::LeakyReluGrad>(),
           {{"alpha", 0.2}});
  Register(registry, "Elu", MapsOfAlpha<functor::Elu>(), ZipsOfAlpha<functor::EluGrad>(), {{"alpha", 1.0}},
           OneBelowZero);
  Register(registry, "Selu", FloatMaps<functor::Selu>(), FloatZips<functor::SeluGrad>(), {}, OneBelowZero);
}

}  // namespace belfry::ops
