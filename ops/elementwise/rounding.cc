#include "absl/strings/str_cat.h"
#include "ops/array.h"
#include "ops/element_code.h"
#include "ops/elementwise/define_impl.h"
#include "ops/elementwise/elementwise_ops.h"
#include "ops/elementwise/step_functors.h"
#include "ops/math.h"

namespace belfry::ops {
namespace {

// Checks integer divisors first, because the processor traps on division by zero.
template <template <class> class F, class T>
absl::StatusOr<Kernel> MakeDivision(const KernelSpec& spec) {
  ASSIGN_OR_RETURN(Kernel kernel, ZipKernel<T>(spec, F<Compute<T>>()));
  if constexpr (std::is_integral_v<T>) {
    const int64_t n = spec.outputs[0].shape.elements() == 0 ? 0 : spec.inputs[1].shape.elements();
    kernel.run = [n, divide = std::move(kernel.run)](const KernelContext& context) {
      const T* b = context.input<T>(1);
      for (int64_t i = 0; i < n; ++i) {
        if (b[i] == 0)
          return absl::InvalidArgumentError(absl::StrCat("integer division by zero: divisor ", i, " is 0"));
      }
      return divide(context);
    };
  }
  return kernel;
}

template <template <class> class F>
std::vector<KernelDef> Divisions() {
  return Kernels<float, double, Half, BFloat16, int32_t, int64_t, uint8_t>(
      "CPU", [](auto tag) { return &MakeDivision<F, typename decltype(tag)::type>; });
}

// Not element-wise for the compiler: errors name a divisor by its index, so the kernel must see the whole tensor.
OpDef Division(absl::string_view name, std::vector<KernelDef> kernels, BinaryGradient gradient) {
  OpDef op = BinaryOp(name, kNumericTypes, std::move(kernels), gradient);
  op.elementwise = false;
  op.element_code = ElementMap(absl::StrCat("Divide<functor::", name, ", {T}>{}"));
  return op;
}

template <class T>
absl::StatusOr<Kernel> MakeClip(const KernelSpec& spec) {
  using C = Compute<T>;
  return MapKernel<T>(
      spec, functor::Clip<C>{static_cast<C>(spec.attrs.Float("low")), static_cast<C>(spec.attrs.Float("high"))});
}

template <class T>
absl::StatusOr<Kernel> MakeClipGrad(const KernelSpec& spec) {
  using C = Compute<T>;
  return ZipKernel<T>(
      spec, functor::ClipGrad<C>{static_cast<C>(spec.attrs.Float("low")), static_cast<C>(spec.attrs.Float("high"))});
}

Output ClipGradient(const Scope& scope, const Node& node, Output x, Output dy) {
  return scope.Add("ClipByValueGrad", {x, dy},
                   {{"low", node.attrs().Float("low")}, {"high", node.attrs().Float("high")}});
}

void RegisterClip(OpRegistry& registry) {
  OpDef clip = UnaryOp(
      "ClipByValue", kFloatTypes,
      Kernels<float, double, Half, BFloat16>("CPU", [](auto tag) { return &MakeClip<typename decltype(tag)::type>; }),
      nullptr);
  clip.attrs = {{"low", 0.0, true}, {"high", 0.0, true}};
  clip.element_code = ElementMap("functor::Clip<{T}>{{T}({low}), {T}({high})}");
  clip.shape = [like = std::move(clip.shape)](const ShapeArgs& args) -> absl::StatusOr<std::vector<Shape>> {
    const double low = args.attrs.Float("low"), high = args.attrs.Float("high");
    if (low <= high) return like(args);
    return absl::InvalidArgumentError(absl::StrCat("low ", low, " is above high ", high));
  };
  clip.not_differentiable = false;
  clip.gradient = [](const Scope& scope, const Node& node, absl::Span<const Output> dy) {
    return std::vector<Output>{ClipGradient(scope, node, node.input(0), dy[0])};
  };
  OpDef gradient = BinaryOp("ClipByValueGrad", kFloatTypes,
                            Kernels<float, double, Half, BFloat16>(
                                "CPU", [](auto tag) { return &MakeClipGrad<typename decltype(tag)::type>; }),
                            nullptr);
  gradient.attrs = clip.attrs;
  gradient.element_code = ElementMap("functor::ClipGrad<{T}>{{T}({low}), {T}({high})}");
  gradient.not_differentiable = false;
  gradient.gradient = [](const Scope& scope, const Node& node, absl::Span<const Output> ddx) {
    return std::vector<Output>{Output(), ClipGradient(scope, node, node.input(0), ddx[0])};
  };
  registry.Add(std::move(clip));
  registry.Add(std::move(gradient));
}

// Returns {dy, 0} where `first` is true, {0, dy} elsewhere.
std::vector<Output> Route(const Scope& scope, Output first, Output dy) {
  const Output zeros = ZerosLike(scope, dy);
  return {Select(scope, first, dy, zeros), Select(scope, first, zeros, dy)};
}

}  // namespace

Output Abs(OpScope scope, Output x) { return scope.Add("Abs", {x}); }
Output Sign(OpScope scope, Output x) { return scope.Add("Sign", {x}); }
Output Floor(OpScope scope, Output x) { return scope.Add("Floor", {x}); }
Output Ceil(OpScope scope, Output x) { return scope.Add("Ceil", {x}); }
Output Round(OpScope scope, Output x) { return scope.Add("Round", {x}); }
Output RoundThrough(OpScope scope, Output x) { return scope.Add("RoundThrough", {x}); }
Output FloorDiv(OpScope scope, const Operand& a, const Operand& b) { return AddBinary(scope, "FloorDiv", a, b); }
Output FloorMod(OpScope scope, const Operand& a, const Operand& b) { return AddBinary(scope, "FloorMod", a, b); }
Output Maximum(OpScope scope, const Operand& a, const Operand& b) { return AddBinary(scope, "Maximum", a, b); }
Output Minimum(OpScope scope, const Operand& a, const Operand& b) { return AddBinary(scope, "Minimum", a, b); }
Output ClipByValue(OpScope scope, Output x, double low, double high) {
  return scope.Add("ClipByValue", {x}, {{"low", low}, {"high", high}});
}

void RegisterRounding(OpRegistry& registry) {
  RegisterClip(registry);
  registry.Add(UnaryOp("Abs", kNumericTypes, NumericMaps<functor::Abs>(),
                       [](const Scope& scope, Output x, Output, Output dy) { return Mul(scope, dy, Sign(scope, x)); }));
  registry.Add(UnaryOp("Sign", kNumericTypes, NumericMaps<functor::Sign>(), nullptr));
  registry.Add(UnaryOp("Floor", kFloatTypes, FloatMaps<functor::Floor>(), nullptr));
  registry.Add(UnaryOp("Ceil", kFloatTypes, FloatMaps<functor::Ceil>(), nullptr));
  registry.Add(UnaryOp("Round", kFloatTypes, FloatMaps<functor::Round>(), nullptr));
  OpDef through = UnaryOp("RoundThrough", kFloatTypes, FloatMaps<functor::Round>(),
                          [](const Scope&, Output, Output, Output dy) { return dy; });
  through.element_code = ElementMap("functor::Round<{T}>{}");
  registry.Add(std::move(through));
  registry.Add(BinaryOp("Maximum", kNumericTypes, NumericZips<functor::Maximum>(),
                        [](const Scope& scope, Output a, Output b, Output, Output dy) {
                          return Route(scope, GreaterEqual(scope, a, b), dy);
                        }));
  registry.Add(BinaryOp("Minimum", kNumericTypes, NumericZips<functor::Minimum>(),
                        [](const Scope& scope, Output a, Output b, Output, Output dy) {
                          return Route(scope, LessEqual(scope, a, b), dy);
                        }));
  registry.Add(Division("FloorDiv", Divisions<functor::FloorDiv>(), nullptr));
  registry.Add(Division("FloorMod", Divisions<functor::FloorMod>(),
                        [](const Scope& scope, Output a, Output b, Output, Output dy) {
                          return std::vector<Output>{dy, Neg(scope, Mul(scope, dy, FloorDiv(scope, a, b)))};
                        }));
}

}  // namespace belfry::ops
