// Operands of ops that take tensors and numbers alike.
#pragma once

#include <concepts>
#include <cstdint>
#include <variant>
#include <vector>

#include "absl/strings/string_view.h"
#include "framework/base/source_location.h"
#include "framework/graph/scope.h"
#include "framework/graph/variable.h"

namespace belfry::ops {

template <class T>
concept Integer = std::integral<T> && !std::same_as<T, bool>;

// A tensor, or a number that stands for a scalar of the other operand's dtype: Sub(scope, 1, x), Maximum(scope, x, 0).
// The number is rounded to floats. It is an error of the node if the dtype is an integer one and the number has a
// fraction, if the dtype cannot hold it (300 in uint8, 1e6 in float16), if the dtype is bool, and if no operand is a
// tensor. A bool is not a number, so the result of == on two Outputs is not an
// operand.
class Operand {
 public:
  Operand(Output tensor, SourceLocation where = SourceLocation::Current())  // NOLINT: implicit on purpose
      : value_(tensor), location_(where) {}
  Operand(const Variable& variable, SourceLocation where = SourceLocation::Current())  // NOLINT: likewise
      : value_(variable.value()), location_(where) {}
  template <std::floating_point T>
  Operand(T number, SourceLocation where = SourceLocation::Current())  // NOLINT: likewise
      : value_(static_cast<double>(number)), location_(where) {}
  template <Integer T>
  Operand(T number, SourceLocation where = SourceLocation::Current())  // NOLINT: likewise
      : value_(static_cast<int64_t>(number)), location_(where) {
    if (std::unsigned_integral<T> && static_cast<int64_t>(number) < 0) value_ = static_cast<double>(number);
  }

  bool is_number() const { return !std::holds_alternative<Output>(value_); }
  Output tensor() const { return is_number() ? Output() : std::get<Output>(value_); }  // invalid if it is a number
  // The number, rounded to a double; 0 if it is a tensor.
  double number() const {
    if (const auto* integer = std::get_if<int64_t>(&value_)) return static_cast<double>(*integer);
    return is_number() ? std::get<double>(value_) : 0;
  }
  const std::variant<Output, int64_t, double>& value() const { return value_; }
  SourceLocation location() const { return location_; }  // the line on which it stands

 private:
  std::variant<Output, int64_t, double> value_;
  SourceLocation location_;
};

// For builders of ops of this name: both operands as tensors, with a constant in place of a number. After an error,
// which sticks to the graph, they are invalid.
std::vector<Output> Tensors(const Scope& scope, absl::string_view op, const Operand& a, const Operand& b);
// Adds a node of this op with these inputs.
Output AddBinary(const Scope& scope, absl::string_view op, const Operand& a, const Operand& b);

}  // namespace belfry::ops
