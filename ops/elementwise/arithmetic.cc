#include <cmath>

#include "ops/element_code.h"
#include "ops/elementwise/define_impl.h"
#include "ops/elementwise/elementwise_ops.h"
#include "ops/elementwise/functors.h"
#include "ops/math.h"

namespace belfry::ops {
namespace {

template <class T>
absl::StatusOr<Kernel> MakeScale(const KernelSpec& spec) {
  return MapKernel<T>(spec, functor::Scale<Compute<T>>{static_cast<Compute<T>>(spec.attrs.Float("factor"))});
}

// Whether Scale multiplies `x` by this number, which is to be finite where x is computed if it is so here.
bool IsFactor(const Operand& number, const Operand& x) {
  if (!number.is_number() || !x.tensor().valid() || !IsFloating(x.tensor().dtype())) return false;
  const bool wide = x.tensor().dtype() == DType::kFloat64 || !std::isfinite(number.number());
  return wide || std::isfinite(static_cast<float>(number.number()));
}

}  // namespace

Output Add(OpScope scope, const Operand& a, const Operand& b) { return AddBinary(scope, "Add", a, b); }
Output Sub(OpScope scope, const Operand& a, const Operand& b) { return AddBinary(scope, "Sub", a, b); }
Output Mul(OpScope scope, const Operand& a, const Operand& b) {
  if (IsFactor(a, b)) return Scale(scope, b.tensor(), a.number());
  if (IsFactor(b, a)) return Scale(scope, a.tensor(), b.number());
  return AddBinary(scope, "Mul", a, b);
}
Output Div(OpScope scope, const Operand& a, const Operand& b) { return AddBinary(scope, "RealDiv", a, b); }
Output SquaredDifference(OpScope scope, const Operand& a, const Operand& b) {
  return AddBinary(scope, "SquaredDifference", a, b);
}
Output Neg(OpScope scope, Output x) { return scope.Add("Neg", {x}); }
Output Square(OpScope scope, Output x) { return scope.Add("Square", {x}); }
Output Scale(OpScope scope, Output x, double factor) { return scope.Add("Scale", {x}, {{"factor", factor}}); }

void RegisterArithmetic(OpRegistry& registry) {
  registry.Add(
      BinaryOp("Add", kNumericTypes, NumericZips<functor::Add>(), [](const Scope&, Output, Output, Output, Output dy) {
        return std::vector<Output>{dy, dy};
      }));
  registry.Add(BinaryOp("Sub", kNumericTypes, NumericZips<functor::Sub>(),
                        [](const Scope& scope, Output, Output, Output, Output dy) {
                          return std::vector<Output>{dy, Neg(scope, dy)};
                        }));
  registry.Add(BinaryOp("Mul", kNumericTypes, NumericZips<functor::Mul>(),
                        [](const Scope& scope, Output a, Output b, Output, Output dy) {
                          return std::vector<Output>{Mul(scope, dy, b), Mul(scope, dy, a)};
                        }));
  registry.Add(BinaryOp("RealDiv", kFloatTypes, FloatZips<functor::RealDiv>(),
                        [](const Scope& scope, Output, Output b, Output y, Output dy) {
                          const Output da = Div(scope, dy, b);
                          return std::vector<Output>{da, Neg(scope, Mul(scope, da, y))};
                        }));
  registry.Add(BinaryOp("SquaredDifference", kNumericTypes, NumericZips<functor::SquaredDifference>(),
                        [](const Scope& scope, Output a, Output b, Output, Output dy) {
                          const Output da = Scale(scope, Mul(scope, dy, Sub(scope, a, b)), 2);
                          return std::vector<Output>{da, Neg(scope, da)};
                        }));
  registry.Add(UnaryOp("Neg", kNumericTypes, NumericMaps<functor::Neg>(),
                       [](const Scope& scope, Output, Output, Output dy) { return Neg(scope, dy); }));
  registry.Add(
      UnaryOp("Square", kNumericTypes, NumericMaps<functor::Square>(),
              [](const Scope& scope, Output x, Output, Output dy) { return Scale(scope, Mul(scope, dy, x), 2); }));

  OpDef scale = UnaryOp(
      "Scale", kFloatTypes,
      Kernels<float, double, Half, BFloat16>("CPU", [](auto tag) { return &MakeScale<typename decltype(tag)::type>; }),
      nullptr);
  scale.attrs = {{"factor", 1.0, true}};
  scale.element_code = ElementMap("functor::Scale<{T}>{{T}({factor})}");
  scale.not_differentiable = false;
  scale.gradient = [](const Scope& scope, const Node& node, absl::Span<const Output> dy) {
    return std::vector<Output>{Scale(scope, dy[0], node.attrs().Float("factor"))};
  };
  registry.Add(std::move(scale));
}

}  // namespace belfry::ops
