// Conversions between element types, defined for every value.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include "framework/base/half.h"

namespace belfry::ops {

// To bool: whether it is not zero (NaN is not). Float to integer: towards zero; NaN gives 0, and what does not fit the
// nearest integer that there is. Integer to a narrower integer: modulo 2^bits. To a float: the nearest.
template <class To, class From>
inline To ConvertElement(From value) {
  constexpr bool small_from = std::is_same_v<From, Half> || std::is_same_v<From, BFloat16>;
  constexpr bool small_to = std::is_same_v<To, Half> || std::is_same_v<To, BFloat16>;
  if constexpr (std::is_same_v<To, From>) {
    return value;
  } else if constexpr (small_from) {
    return ConvertElement<To>(static_cast<float>(value));
  } else if constexpr (small_to) {
    return To(static_cast<float>(value));
  } else if constexpr (std::is_same_v<To, bool>) {
    return value != From(0);
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    // 2^bits and, for signed types, -2^bits are exact in every float type; the largest integer itself is not.
    constexpr From kEnd = static_cast<From>(std::numeric_limits<To>::max() / 2 + 1) * 2;
    constexpr From kLowest = static_cast<From>(std::numeric_limits<To>::min());
    if (!(value > kLowest)) return value == value ? std::numeric_limits<To>::min() : To(0);
    return value < kEnd ? static_cast<To>(value) : std::numeric_limits<To>::max();
  } else {
    return static_cast<To>(value);
  }
}

}  // namespace belfry::ops
