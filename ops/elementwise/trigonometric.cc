#include <cmath>

#include "ops/array.h"
#include "ops/elementwise/define_impl.h"
#include "ops/elementwise/elementwise_ops.h"
#include "ops/elementwise/functors.h"
#include "ops/math.h"

namespace belfry::ops {
namespace {

// 1 + sign x^2.
Output OnePlusSquare(const Scope& scope, Output x, int sign) {
  const Output one = Fill(scope, {}, 1, x.dtype()), square = Square(scope, x);
  return sign > 0 ? Add(scope, one, square) : Sub(scope, one, square);
}

// d erf(x) / dx = 2 / sqrt(pi) exp(-x^2).
Output ErfGradient(const Scope& scope, Output x, Output dy, double sign) {
  return Scale(scope, Mul(scope, dy, Exp(scope, Neg(scope, Square(scope, x)))), sign * 2 / std::sqrt(M_PI));
}

void RegisterInverses(OpRegistry& registry) {
  registry.Add(
      UnaryOp("Asin", kFloatTypes, FloatMaps<functor::Asin>(), [](const Scope& scope, Output x, Output, Output dy) {
        return Mul(scope, dy, Rsqrt(scope, OnePlusSquare(scope, x, -1)));
      }));
  registry.Add(
      UnaryOp("Acos", kFloatTypes, FloatMaps<functor::Acos>(), [](const Scope& scope, Output x, Output, Output dy) {
        return Neg(scope, Mul(scope, dy, Rsqrt(scope, OnePlusSquare(scope, x, -1))));
      }));
  registry.Add(UnaryOp(
      "Atan", kFloatTypes, FloatMaps<functor::Atan>(),
      [](const Scope& scope, Output x, Output, Output dy) { return Div(scope, dy, OnePlusSquare(scope, x, 1)); }));
  registry.Add(BinaryOp(
      "Atan2", kFloatTypes, FloatZips<functor::Atan2>(), [](const Scope& scope, Output a, Output b, Output, Output dy) {
        // dy b / (a^2 + b^2) and -dy a / (a^2 + b^2), of numbers divided by the larger one, so that
        // squares neither overflow nor vanish. At the origin, where there is no angle, both are 0.
        const Output larger = StopGradient(scope, Maximum(scope, Abs(scope, a), Abs(scope, b)));
        const Output one = Fill(scope, {}, 1, a.dtype());
        const Output ordinary =
            LogicalAnd(scope, Greater(scope, larger, ZerosLike(scope, larger)), IsFinite(scope, larger));
        const Output size = Select(scope, ordinary, larger, one);
        const Output u = Div(scope, a, size), v = Div(scope, b, size);
        const Output squares = Add(scope, Square(scope, u), Square(scope, v));
        const Output none = Equal(scope, squares, ZerosLike(scope, squares));
        const Output d = Div(scope, Div(scope, dy, Select(scope, none, one, squares)), size);
        return std::vector<Output>{Mul(scope, d, v), Neg(scope, Mul(scope, d, u))};
      }));
}

}  // namespace

Output Sin(OpScope scope, Output x) { return scope.Add("Sin", {x}); }
Output Cos(OpScope scope, Output x) { return scope.Add("Cos", {x}); }
Output Tan(OpScope scope, Output x) { return scope.Add("Tan", {x}); }
Output Asin(OpScope scope, Output x) { return scope.Add("Asin", {x}); }
Output Acos(OpScope scope, Output x) { return scope.Add("Acos", {x}); }
Output Atan(OpScope scope, Output x) { return scope.Add("Atan", {x}); }
Output Atan2(OpScope scope, const Operand& y, const Operand& x) { return AddBinary(scope, "Atan2", y, x); }
Output Sinh(OpScope scope, Output x) { return scope.Add("Sinh", {x}); }
Output Cosh(OpScope scope, Output x) { return scope.Add("Cosh", {x}); }
Output Erf(OpScope scope, Output x) { return scope.Add("Erf", {x}); }
Output Erfc(OpScope scope, Output x) { return scope.Add("Erfc", {x}); }

void RegisterTrigonometric(OpRegistry& registry) {
  RegisterInverses(registry);
  registry.Add(UnaryOp("Sin", kFloatTypes, FloatMaps<functor::Sin>(),
                       [](const Scope& scope, Output x, Output, Output dy) { return Mul(scope, dy, Cos(scope, x)); }));
  registry.Add(UnaryOp(
      "Cos", kFloatTypes, FloatMaps<functor::Cos>(),
      [](const Scope& scope, Output x, Output, Output dy) { return Neg(scope, Mul(scope, dy, Sin(scope, x))); }));
  registry.Add(UnaryOp(
      "Tan", kFloatTypes, FloatMaps<functor::Tan>(),
      [](const Scope& scope, Output, Output y, Output dy) { return Mul(scope, dy, OnePlusSquare(scope, y, 1)); }));
  registry.Add(UnaryOp("Sinh", kFloatTypes, FloatMaps<functor::Sinh>(),
                       [](const Scope& scope, Output x, Output, Output dy) { return Mul(scope, dy, Cosh(scope, x)); }));
  registry.Add(UnaryOp("Cosh", kFloatTypes, FloatMaps<functor::Cosh>(),
                       [](const Scope& scope, Output x, Output, Output dy) { return Mul(scope, dy, Sinh(scope, x)); }));
  registry.Add(UnaryOp("Erf", kFloatTypes, FloatMaps<functor::Erf>(),
                       [](const Scope& scope, Output x, Output, Output dy) { return ErfGradient(scope, x, dy, 1); }));
  registry.Add(UnaryOp("Erfc", kFloatTypes, FloatMaps<functor::Erfc>(),
                       [](const Scope& scope, Output x, Output, Output dy) { return ErfGradient(scope, x, dy, -1); }));
}

}  // namespace belfry::ops
