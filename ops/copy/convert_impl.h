// Conversions between element types on CPUs, including the 16-bit floats.
#pragma once

#include <type_traits>

#include "framework/base/half.h"
#include "framework/base/numeric/round_to_odd.h"
#include "ops/copy/convert.h"

namespace belfry::ops {

// ConvertNumber, extended to the 16-bit floats. Numbers are rounded to them once.
template <class To, class From>
inline To ConvertElement(From value) {
  constexpr bool small_from = std::is_same_v<From, Half> || std::is_same_v<From, BFloat16>;
  constexpr bool small_to = std::is_same_v<To, Half> || std::is_same_v<To, BFloat16>;
  if constexpr (std::is_same_v<To, From>) {
    return value;
  } else if constexpr (small_from) {
    return ConvertElement<To>(static_cast<float>(value));
  } else if constexpr (small_to) {
    return To(RoundToOdd(value));
  } else {
    return ConvertNumber<To>(value);
  }
}

}  // namespace belfry::ops
