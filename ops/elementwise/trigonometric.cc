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
  registry.Add(BinaryOp("Atan2", kFloatTypes, FloatZips<functor::Atan2>(),
                        [](const Scope& scope, Output a, Output b, Output, Output dy) {
                          const Output aa = Square(scope, a), bb = Square(scope, b);
                          const Output d = Div(scope, dy, Add(scope, aa, bb));
                          return std::vector<Output>{Mul(scope, d, b), Neg(scope, Mul(scope, d, a))};
                        }));
}

}  // namespace

Output Sin(OpScope scope, Output x) { return scope.Add("Sin", {x}); }
Output Cos(OpScope scope, Output x) { return scope.Add("Cos", {x}); }
Output Tan(OpScope scope, Output x) { return scope.Add("Tan", {x}); }
Output Asin(OpScope scope, Output x) { return scope.Add("Asin", {x}); }
Output Acos(OpScope scope, Output x) { return scope.Add("Acos", {x}); }
Output Atan(OpScope scope, Output x) { return scope.Add("Atan", {x}); }
Output Atan2(OpScope scope, Output y, Output x) { return scope.Add("Atan2", {y, x}); }
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
