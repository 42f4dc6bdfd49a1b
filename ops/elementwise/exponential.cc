#include "absl/algorithm/container.h"
#include "ops/array.h"
#include "ops/elementwise/define_impl.h"
#include "ops/elementwise/elementwise_ops.h"
#include "ops/elementwise/functors.h"
#include "ops/math.h"

namespace belfry::ops {
namespace {

// "TanhGrad" and "SigmoidGrad" compute dx = f'(y) dy from the output y. Their own gradients with respect to y differ.
OpDef GradOp(absl::string_view name, std::vector<KernelDef> kernels, BinaryGradient gradient) {
  OpDef op = BinaryOp(name, kFloatTypes, std::move(kernels), gradient);
  op.inputs = {{.name = "y"}, {.name = "dy"}};
  op.outputs = {{.name = "dx"}};
  return op;
}

void RegisterFromOutput(OpRegistry& registry) {
  registry.Add(
      UnaryOp("Tanh", kFloatTypes, FloatMaps<functor::Tanh>(), [](const Scope& scope, Output, Output y, Output dy) {
        return scope.Add("TanhGrad", {y, dy});
      }));
  registry.Add(GradOp("TanhGrad", FloatZips<functor::TanhGrad>(),
                      [](const Scope& scope, Output y, Output dy, Output, Output ddx) {
                        return std::vector<Output>{Scale(scope, Mul(scope, ddx, Mul(scope, dy, y)), -2),
                                                   scope.Add("TanhGrad", {y, ddx})};
                      }));
  registry.Add(UnaryOp("Sigmoid", kFloatTypes, FloatMaps<functor::Sigmoid>(),
                       [](const Scope& scope, Output, Output y, Output dy) {
                         return scope.Add("SigmoidGrad", {y, dy});
                       }));
  registry.Add(GradOp("SigmoidGrad", FloatZips<functor::SigmoidGrad>(),
                      [](const Scope& scope, Output y, Output dy, Output, Output ddx) {
                        const Output both = Mul(scope, ddx, dy);
                        return std::vector<Output>{Sub(scope, both, Scale(scope, Mul(scope, both, y), 2)),
                                                   scope.Add("SigmoidGrad", {y, ddx})};
                      }));
}

// True if b is a constant that holds no 0.
bool NeverZero(const Output& b) {
  const Attrs& attrs = b.node->attrs();
  if (b.node->op().name == "Fill") return attrs.Float("value") != 0;
  if (b.node->op().name != "Const") return false;
  const std::vector<double> values = attrs.Get<Tensor>("value").ToDoubles();
  return !absl::c_linear_search(values, 0.0);
}

// dy b a^(b - 1). The derivative of a^0, which is 1 for every a, is 0 also where a^-1 is infinite or NaN: there it is
// computed at a = 1, so that second derivatives are not NaN either.
Output PowBaseGradient(const Scope& scope, Output a, Output b, Output dy) {
  const Output less = Sub(scope, b, Fill(scope, {}, 1, b.dtype()));
  Output base = a;
  if (!NeverZero(b)) {
    const Output singular = LogicalNot(scope, Greater(scope, Abs(scope, a), ZerosLike(scope, a)));
    const Output none = Equal(scope, b, ZerosLike(scope, b));
    base = Select(scope, LogicalAnd(scope, none, singular), Fill(scope, {}, 1, a.dtype()), a);
  }
  return Mul(scope, dy, Mul(scope, b, Pow(scope, base, less)));
}

// dy y log(a) where a > 0. Elsewhere the power is not differentiable in its exponent, and the gradient is set to 0.
Output PowExponentGradient(const Scope& scope, Output a, Output y, Output dy) {
  const Output zeros = ZerosLike(scope, a);
  const Output positive = Greater(scope, a, zeros);
  const Output log = Select(scope, positive, Log(scope, a), zeros);
  return Mul(scope, Mul(scope, dy, y), log);
}

}  // namespace

Output Exp(OpScope scope, Output x) { return scope.Add("Exp", {x}); }
Output Expm1(OpScope scope, Output x) { return scope.Add("Expm1", {x}); }
Output Log(OpScope scope, Output x) { return scope.Add("Log", {x}); }
Output Log1p(OpScope scope, Output x) { return scope.Add("Log1p", {x}); }
Output Tanh(OpScope scope, Output x) { return scope.Add("Tanh", {x}); }
Output Sigmoid(OpScope scope, Output x) { return scope.Add("Sigmoid", {x}); }
Output Sqrt(OpScope scope, Output x) { return scope.Add("Sqrt", {x}); }
Output Rsqrt(OpScope scope, Output x) { return scope.Add("Rsqrt", {x}); }
Output Reciprocal(OpScope scope, Output x) { return scope.Add("Reciprocal", {x}); }
Output Pow(OpScope scope, const Operand& a, const Operand& b) { return AddBinary(scope, "Pow", a, b); }

void RegisterExponentials(OpRegistry& registry) {
  RegisterFromOutput(registry);
  registry.Add(UnaryOp("Exp", kFloatTypes, FloatMaps<functor::Exp>(),
                       [](const Scope& scope, Output, Output y, Output dy) { return Mul(scope, dy, y); }));
  registry.Add(
      UnaryOp("Expm1", kFloatTypes, FloatMaps<functor::Expm1>(),
              [](const Scope& scope, Output, Output y, Output dy) { return Add(scope, dy, Mul(scope, dy, y)); }));
  registry.Add(UnaryOp("Log", kFloatTypes, FloatMaps<functor::Log>(),
                       [](const Scope& scope, Output x, Output, Output dy) { return Div(scope, dy, x); }));
  registry.Add(
      UnaryOp("Log1p", kFloatTypes, FloatMaps<functor::Log1p>(), [](const Scope& scope, Output x, Output, Output dy) {
        return Div(scope, dy, Add(scope, x, Fill(scope, {}, 1, x.dtype())));
      }));
  registry.Add(
      UnaryOp("Sqrt", kFloatTypes, FloatMaps<functor::Sqrt>(),
              [](const Scope& scope, Output, Output y, Output dy) { return Scale(scope, Div(scope, dy, y), 0.5); }));
  registry.Add(
      UnaryOp("Rsqrt", kFloatTypes, FloatMaps<functor::Rsqrt>(), [](const Scope& scope, Output, Output y, Output dy) {
        return Scale(scope, Mul(scope, dy, Mul(scope, y, Square(scope, y))), -0.5);
      }));
  registry.Add(UnaryOp(
      "Reciprocal", kFloatTypes, FloatMaps<functor::Reciprocal>(),
      [](const Scope& scope, Output, Output y, Output dy) { return Neg(scope, Mul(scope, dy, Square(scope, y))); }));
  registry.Add(BinaryOp(
      "Pow", kFloatTypes, FloatZips<functor::Pow>(), [](const Scope& scope, Output a, Output b, Output y, Output dy) {
        return std::vector<Output>{PowBaseGradient(scope, a, b, dy), PowExponentGradient(scope, a, y, dy)};
      }));
}

}  // namespace belfry::ops
