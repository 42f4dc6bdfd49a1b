#include "ops/operand.h"

#include <cmath>
#include <limits>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/half.h"
#include "framework/base/status.h"
#include "ops/array.h"
#include "ops/copy/convert_impl.h"

namespace belfry::ops {
namespace {

template <class T>
bool Holds(int64_t number) {
  if constexpr (std::is_integral_v<T>) return std::in_range<T>(number);
  return std::isfinite(static_cast<float>(ConvertElement<T>(number)));
}
template <class T>
bool Holds(double number) {
  if constexpr (std::is_integral_v<T>) {
    return number >= static_cast<double>(std::numeric_limits<T>::min()) &&
           number < std::ldexp(1.0, std::numeric_limits<T>::digits);
  }
  return !std::isfinite(number) || std::isfinite(static_cast<double>(ConvertElement<T>(number)));
}

template <class T, class Number>
absl::StatusOr<Tensor> Scalar(Number number) {
  if constexpr (std::is_integral_v<T> && std::is_floating_point_v<Number>) {
    if (std::trunc(number) != number) return absl::InvalidArgumentError(absl::StrCat(number, " is not an integer"));
  }
  if (!Holds<T>(number)) {
    return absl::InvalidArgumentError(absl::StrCat(DTypeName(kDTypeOf<T>), " cannot hold ", number));
  }
  return Tensor::Scalar<T>(ConvertElement<T>(number));
}

template <class Number>
absl::StatusOr<Tensor> Scalar(Number number, DType dtype) {
  switch (dtype) {
    case DType::kFloat32: return Scalar<float>(number);
    case DType::kFloat64: return Scalar<double>(number);
    case DType::kFloat16: return Scalar<Half>(number);
    case DType::kBFloat16: return Scalar<BFloat16>(number);
    case DType::kInt32: return Scalar<int32_t>(number);
    case DType::kInt64: return Scalar<int64_t>(number);
    case DType::kUInt8: return Scalar<uint8_t>(number);
    case DType::kBool: break;
  }
  return absl::InvalidArgumentError(absl::StrCat(number, " is not a bool"));
}

absl::Status CannotAdd(const Scope& scope, absl::string_view op, absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("Cannot add a node of op ", op, " in scope '", scope.name(), "': ", why));
}

// The number of `operand` as a constant of the dtype of `other`.
Output Constant(const Scope& scope, absl::string_view op, const Operand& operand, Output other) {
  const auto* integer = std::get_if<int64_t>(&operand.value());
  const DType dtype = other.dtype();
  const absl::StatusOr<Tensor> value = integer != nullptr ? Scalar(*integer, dtype) : Scalar(operand.number(), dtype);
  if (value.ok()) return Const(scope.Named(""), *value);
  scope.Fail(CannotAdd(scope, op,
                       absl::StrCat(value.status().message(), ", and '", other.name(), "' beside it is ",
                                    DTypeName(dtype), "; cast the tensor (ops::Cast) or give another number")));
  return Output();
}

}  // namespace

std::vector<Output> Tensors(const Scope& scope, absl::string_view op, const Operand& a, const Operand& b) {
  Output x = a.tensor(), y = b.tensor();
  if (a.is_number() && b.is_number()) {
    scope.Fail(CannotAdd(scope, op, "its operands are numbers, and one must be a tensor, whose dtype both then have"));
  } else if (a.is_number() && y.valid()) {
    x = Constant(scope, op, a, y);
  } else if (b.is_number() && x.valid()) {
    y = Constant(scope, op, b, x);
  }
  return {x, y};
}

Output AddBinary(const Scope& scope, absl::string_view op, const Operand& a, const Operand& b) {
  return scope.Add(op, Tensors(scope, op, a, b));
}

}  // namespace belfry::ops
