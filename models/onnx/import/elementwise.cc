#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "models/onnx/import/importer_impl.h"
#include "ops/array.h"
#include "ops/math.h"
#include "ops/nn.h"

namespace belfry::onnx {
namespace {

absl::Status Unary(Importer& to) {
  const Order order = to.ResultOrder();
  to.Out(to.rule().unary(to.scope(), to.Operand(0, order)), order);
  return absl::OkStatus();
}

// Two or more operands.
absl::Status Binary(Importer& to) {
  const Order order = to.ResultOrder();
  Output result = to.Operand(0, order);
  for (int i = 1; i < to.InputCount(); ++i) result = to.rule().binary(to.scope(), result, to.Operand(i, order));
  to.Out(result, order);
  return absl::OkStatus();
}

// x [.., C] + bias [C], which the products before it take in.
bool IsBias(const Output& bias, const Output& x) {
  return bias.valid() && x.valid() && bias.shape().rank() == 1 && x.shape().rank() > 1 && bias.shape()[0] > 1 &&
         x.shape()[-1] == bias.shape()[0] && IsFloating(x.dtype()) && bias.dtype() == x.dtype();
}

Output Sum(const Scope& scope, const Output& a, const Output& b) {
  if (IsBias(b, a)) return ops::BiasAdd(scope, a, b);
  if (IsBias(a, b)) return ops::BiasAdd(scope, b, a);
  return ops::Add(scope, a, b);
}

// The quotient of integers, rounded towards zero.
Output IntegerQuotient(const Scope& scope, const Output& a, const Output& b) {
  const Output size = ops::FloorDiv(scope, ops::Abs(scope, a), ops::Abs(scope, b));
  return ops::Mul(scope, size, ops::Mul(scope, ops::Sign(scope, a), ops::Sign(scope, b)));
}

MaybeExtent Combined(absl::string_view op, const MaybeExtent& a, const MaybeExtent& b) {
  if (!a || !b) return std::nullopt;
  if (!a->taken() && !b->taken()) {
    const int64_t x = a->size(), y = b->size();
    if (op == "Add") return ops::Extent(AddExtents(x, y));
    if (op == "Sub") return ops::Extent(AddExtents(x, MultiplyExtents(y, -1)));
    if (op == "Mul") return ops::Extent(MultiplyExtents(x, y));
    if (y == 0 || (y == -1 && x == std::numeric_limits<int64_t>::min())) return std::nullopt;
    return ops::Extent(x / y);
  }
  if (op == "Mul" && a->taken() != b->taken()) {
    const int64_t factor = a->taken() ? b->size() : a->size();
    if (factor < 0) return std::nullopt;
    return (a->taken() ? *a : *b) * factor;
  }
  if (op == "Add" && a->taken() != b->taken()) return a->taken() ? *a + b->size() : *b + a->size();
  const bool alike = a->taken() && b->taken() && a->tensor() == b->tensor() && a->axis() == b->axis() &&
                     a->factor() == b->factor() && a->divisor() == b->divisor();
  if (op == "Sub" && alike && (a->offset() - b->offset()) % a->divisor() == 0) {
    return ops::Extent((a->offset() - b->offset()) / a->divisor());
  }
  if (op == "Sub" && a->taken() && !b->taken()) return *a - b->size();
  if (op == "Div" && a->taken() && !b->taken() && b->size() > 0) return *a / b->size();
  return std::nullopt;
}

// True if the result is made of extents: both operands are such lists, and an open extent is among them.
bool OfExtents(Importer& to) {
  if (to.InputCount() != 2 || (!to.IsComputedExtents(0) && !to.IsComputedExtents(1))) return false;
  const std::optional<ExtentList> a = to.ExtentsIn(0), b = to.ExtentsIn(1);
  if (!a || !b) return false;
  const size_t n = std::max(a->list.size(), b->list.size());
  ExtentList result{.scalar = a->scalar && b->scalar, .dtype = a->dtype};
  if ((a->list.size() != n && a->list.size() != 1) || (b->list.size() != n && b->list.size() != 1)) return false;
  for (size_t i = 0; i < n; ++i) {
    result.list.push_back(
        Combined(to.rule().op, a->list[a->list.size() == 1 ? 0 : i], b->list[b->list.size() == 1 ? 0 : i]));
  }
  to.OutExtents(std::move(result));
  return true;
}

// Add, Sub, Mul and Div.
absl::Status Arithmetic(Importer& to) {
  if (OfExtents(to)) return absl::OkStatus();
  const Order order = to.ResultOrder();
  const Output a = to.Operand(0, order), b = to.Operand(1, order);
  const bool integers = a.valid() && to.rule().op == "Div" && !IsFloating(a.dtype());
  to.Out(integers ? IntegerQuotient(to.scope(), a, b) : to.rule().binary(to.scope(), a, b), order);
  return absl::OkStatus();
}
Output AddOrBias(OpScope scope, Output a, Output b) { return Sum(scope, a, b); }

// Equal of extents holds only where both are numbers, or where one is a number that no extent is.
absl::Status Equal(Importer& to) {
  if (to.InputCount() == 2 && (to.IsComputedExtents(0) || to.IsComputedExtents(1))) {
    const std::optional<ExtentList> a = to.ExtentsIn(0), b = to.ExtentsIn(1);
    const size_t n = a && b ? std::max(a->list.size(), b->list.size()) : 0;
    std::vector<bool> equal;
    for (size_t i = 0; i < n && !a->list.empty() && !b->list.empty(); ++i) {
      const MaybeExtent &x = a->list[std::min(i, a->list.size() - 1)], &y = b->list[std::min(i, b->list.size() - 1)];
      if (!x || !y) break;
      if (!x->taken() && !y->taken()) equal.push_back(x->size() == y->size());
      if (x->taken() != y->taken() && (x->taken() ? *y : *x).size() < 0) equal.push_back(false);
    }
    if (n > 0 && equal.size() == n) {
      Tensor result(DType::kBool, a->scalar && b->scalar ? Shape() : Shape({static_cast<int64_t>(n)}));
      for (size_t i = 0; i < n; ++i) result.data<bool>()[i] = equal[i];
      to.Out(ops::Const(to.scope(), result));
      return absl::OkStatus();
    }
  }
  return Binary(to);
}

// A choice between extents needs a condition that is known.
absl::Status Where(Importer& to) {
  if (to.IsComputedExtents(1) || to.IsComputedExtents(2)) {
    const Tensor* const condition = to.Constant(0);
    const std::optional<ExtentList> a = to.ExtentsIn(1), b = to.ExtentsIn(2);
    const bool fits = condition != nullptr && condition->dtype() == DType::kBool && a && b &&
                      condition->elements() == static_cast<int64_t>(a->list.size()) && a->list.size() == b->list.size();
    if (fits) {
      ExtentList result{.scalar = a->scalar, .dtype = a->dtype};
      for (size_t i = 0; i < a->list.size(); ++i) {
        result.list.push_back(condition->data<bool>()[i] ? a->list[i] : b->list[i]);
      }
      to.OutExtents(std::move(result));
      return absl::OkStatus();
    }
  }
  const Order order = to.ResultOrder();
  to.Out(ops::Select(to.scope(), to.Operand(0, order), to.Operand(1, order), to.Operand(2, order)), order);
  return absl::OkStatus();
}

absl::Status Pow(Importer& to) {
  const Order order = to.ResultOrder();
  const Output x = to.Operand(0, order);
  const Tensor* const exponent = to.Constant(1);
  if (exponent != nullptr && exponent->elements() == 1 && exponent->shape().rank() == 0 && x.valid() &&
      IsFloating(x.dtype())) {
    const double value = exponent->ToDoubles()[0];
    if (value == 2) return to.Out(ops::Square(to.scope(), x), order), absl::OkStatus();
    if (value == 0.5) return to.Out(ops::Sqrt(to.scope(), x), order), absl::OkStatus();
  }
  const Output y = to.Operand(1, order);
  if (x.valid() && y.valid()) to.Out(ops::Pow(to.scope(), x, ops::Cast(to.scope(), y, x.dtype())), order);
  return absl::OkStatus();
}

// The remainder has the sign of b or, as C's fmod, that of a.
absl::Status Mod(Importer& to) {
  if (to.Int("fmod", 0) == 0) return Binary(to);
  const Scope& scope = to.scope();
  const Order order = to.ResultOrder();
  const Output a = to.Operand(0, order), b = to.Operand(1, order);
  const Output size = ops::FloorMod(scope, ops::Abs(scope, a), ops::Abs(scope, b));
  to.Out(ops::Mul(scope, size, ops::Sign(scope, a)), order);
  return absl::OkStatus();
}

absl::Status Mean(Importer& to) {
  const Order order = to.ResultOrder();
  Output sum = to.Operand(0, order);
  for (int i = 1; i < to.InputCount(); ++i) sum = ops::Add(to.scope(), sum, to.Operand(i, order));
  to.Out(ops::Scale(to.scope(), sum, 1.0 / std::max(to.InputCount(), 1)), order);
  return absl::OkStatus();
}

absl::Status CastTo(Importer& to, absl::StatusOr<DType> dtype) {
  RETURN_IF_ERROR(dtype.status());
  const bool integer = *dtype == DType::kInt64 || *dtype == DType::kInt32;
  if (integer && to.IsComputedExtents(0)) {
    ExtentList extents = *to.ExtentsIn(0);
    extents.dtype = *dtype;
    to.OutExtents(std::move(extents));
    return absl::OkStatus();
  }
  const Order order = to.ResultOrder();
  to.Out(ops::Cast(to.scope(), to.Operand(0, order), *dtype), order);
  return absl::OkStatus();
}
absl::Status Cast(Importer& to) { return CastTo(to, RequireDType(static_cast<int32_t>(to.Int("to", 0)))); }
absl::Status CastLike(Importer& to) { return CastTo(to, to.TypeOf(1)); }

absl::Status Same(Importer& to) {
  to.SameAs(0);
  return absl::OkStatus();
}

// Inference passes the input on.
absl::Status Dropout(Importer& to) {
  if (to.IsUsed(1)) return absl::UnimplementedError("its mask is read");
  if (to.Has(2)) {
    ASSIGN_OR_RETURN(const Tensor training, to.Known(2));
    if (training.ToDoubles(1) == std::vector<double>{1}) {
      return absl::UnimplementedError("it is in training mode; export the model in evaluation mode");
    }
  }
  return Same(to);
}

absl::Status IsInf(Importer& to) {
  if (to.Int("detect_positive", 1) == 0 || to.Int("detect_negative", 1) == 0) {
    return absl::UnimplementedError("infinities of one sign are not covered");
  }
  return Unary(to);
}

constexpr ImportRule kElementwise[] = {
    {"Add", Arithmetic, nullptr, AddOrBias},
    {"Sub", Arithmetic, nullptr, [](OpScope s, Output a, Output b) { return ops::Sub(s, a, b); }},
    {"Mul", Arithmetic, nullptr, [](OpScope s, Output a, Output b) { return ops::Mul(s, a, b); }},
    {"Div", Arithmetic, nullptr, [](OpScope s, Output a, Output b) { return ops::Div(s, a, b); }},
    {"Sum", Binary, nullptr, [](OpScope s, Output a, Output b) { return ops::Add(s, a, b); }},
    {"Mean", Mean},
    {"Max", Binary, nullptr, [](OpScope s, Output a, Output b) { return ops::Maximum(s, a, b); }},
    {"Min", Binary, nullptr, [](OpScope s, Output a, Output b) { return ops::Minimum(s, a, b); }},
    {"Mod", Mod, nullptr, [](OpScope s, Output a, Output b) { return ops::FloorMod(s, a, b); }},
    {"Pow", Pow},
    {"Equal", Equal, nullptr, [](OpScope s, Output a, Output b) { return ops::Equal(s, a, b); }},
    {"Less", Binary, nullptr, [](OpScope s, Output a, Output b) { return ops::Less(s, a, b); }},
    {"LessOrEqual", Binary, nullptr, [](OpScope s, Output a, Output b) { return ops::LessEqual(s, a, b); }},
    {"Greater", Binary, nullptr, [](OpScope s, Output a, Output b) { return ops::Greater(s, a, b); }},
    {"GreaterOrEqual", Binary, nullptr, [](OpScope s, Output a, Output b) { return ops::GreaterEqual(s, a, b); }},
    {"And", Binary, nullptr, [](OpScope s, Output a, Output b) { return ops::LogicalAnd(s, a, b); }},
    {"Or", Binary, nullptr, [](OpScope s, Output a, Output b) { return ops::LogicalOr(s, a, b); }},
    {"Xor", Binary, nullptr, [](OpScope s, Output a, Output b) { return ops::LogicalXor(s, a, b); }},
    {"Where", Where},
    {"Not", Unary, [](OpScope s, Output x) { return ops::LogicalNot(s, x); }},
    {"Neg", Unary, [](OpScope s, Output x) { return ops::Neg(s, x); }},
    {"Abs", Unary, [](OpScope s, Output x) { return ops::Abs(s, x); }},
    {"Sign", Unary, [](OpScope s, Output x) { return ops::Sign(s, x); }},
    {"Floor", Unary, [](OpScope s, Output x) { return ops::Floor(s, x); }},
    {"Ceil", Unary, [](OpScope s, Output x) { return ops::Ceil(s, x); }},
    {"Round", Unary, [](OpScope s, Output x) { return ops::Round(s, x); }},
    {"Exp", Unary, [](OpScope s, Output x) { return ops::Exp(s, x); }},
    {"Log", Unary, [](OpScope s, Output x) { return ops::Log(s, x); }},
    {"Sqrt", Unary, [](OpScope s, Output x) { return ops::Sqrt(s, x); }},
    {"Reciprocal", Unary, [](OpScope s, Output x) { return ops::Reciprocal(s, x); }},
    {"Sin", Unary, [](OpScope s, Output x) { return ops::Sin(s, x); }},
    {"Cos", Unary, [](OpScope s, Output x) { return ops::Cos(s, x); }},
    {"Tan", Unary, [](OpScope s, Output x) { return ops::Tan(s, x); }},
    {"Asin", Unary, [](OpScope s, Output x) { return ops::Asin(s, x); }},
    {"Acos", Unary, [](OpScope s, Output x) { return ops::Acos(s, x); }},
    {"Atan", Unary, [](OpScope s, Output x) { return ops::Atan(s, x); }},
    {"Sinh", Unary, [](OpScope s, Output x) { return ops::Sinh(s, x); }},
    {"Cosh", Unary, [](OpScope s, Output x) { return ops::Cosh(s, x); }},
    {"Erf", Unary, [](OpScope s, Output x) { return ops::Erf(s, x); }},
    {"IsNaN", Unary, [](OpScope s, Output x) { return ops::IsNan(s, x); }},
    {"IsInf", IsInf, [](OpScope s, Output x) { return ops::IsInf(s, x); }},
    {"Cast", Cast},
    {"CastLike", CastLike},
    {"Identity", Same},
    {"Dropout", Dropout},
};

}  // namespace

absl::Span<const ImportRule> ElementwiseImports() { return kElementwise; }

}  // namespace belfry::onnx
