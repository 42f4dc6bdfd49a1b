// Conversions between element types, defined for every value, for CPUs and GPUs. Those of the 16-bit floats are in
// ops/copy/convert_impl.h.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace belfry::ops {

// To bool: whether the value is non-zero; NaN is true. Float to integer: truncates towards zero; NaN gives 0, and
// values out of range give the nearest representable integer. Integer to a narrower integer: modulo 2^bits. To a float:
// rounds to nearest.
template <class To, class From>
constexpr To ConvertNumber(From value) {
  if constexpr (std::is_same_v<To, From>) {
    return value;
  } else if constexpr (std::is_same_v<To, bool>) {
    return value != From(0);
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    // 2^bits and -2^bits are exact in every float type, but the largest integer is not.
    constexpr From kEnd = static_cast<From>(std::numeric_limits<To>::max() / 2 + 1) * 2;
    constexpr From kLowest = static_cast<From>(std::numeric_limits<To>::min());
    if (!(value > kLowest)) return value == value ? std::numeric_limits<To>::min() : To(0);
    return value < kEnd ? static_cast<To>(value) : std::numeric_limits<To>::max();
  } else {
    return static_cast<To>(value);
  }
}

// Element i of a range, rounded once (fma), so that it is the same on every device.
template <class T>
constexpr T RangeElement(T start, T delta, int64_t i) {
  return std::fma(static_cast<T>(i), delta, start);
}
constexpr int64_t RangeElement(int64_t start, int64_t delta, int64_t i) { return start + i * delta; }

// The type in which a range of T is computed. Integers are added as such, since a double skips those beyond 2^53.
template <class T>
using RangeMath = std::conditional_t<std::is_integral_v<T>, int64_t, double>;

}  // namespace belfry::ops
