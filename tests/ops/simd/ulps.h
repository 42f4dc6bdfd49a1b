// Distances from exact results.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

namespace belfry::ops::simd {

// The distance of `y` from `exact` in units in the last place of `exact`; of subnormal numbers, in the smallest one.
// Infinite if one is NaN or infinite and the other not, or if zeros have other signs. T is float or double.
template <class T>
double Ulps(T y, long double exact) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (std::isnan(exact) || std::isnan(y)) return std::isnan(exact) && std::isnan(y) ? 0 : kInfinity;
  const T nearest = static_cast<T>(exact);
  if (std::isinf(nearest) || std::isinf(y)) {
    // Where the exact result is about to overflow, the largest number and infinity are neighbours.
    if (y == nearest) return 0;
    constexpr long double kLargest = std::numeric_limits<T>::max();
    const bool near = std::abs(exact) > kLargest * (1 - 2 * std::numeric_limits<T>::epsilon()) &&
                      std::abs(exact) < kLargest * (1 + 2 * std::numeric_limits<T>::epsilon());
    return near && std::signbit(y) == std::signbit(nearest) ? 1 : kInfinity;
  }
  if (exact == 0 && y == 0) return std::signbit(exact) == std::signbit(y) ? 0 : kInfinity;
  int exponent = 0;
  std::frexp(exact, &exponent);
  exponent = std::max(exponent, std::numeric_limits<T>::min_exponent);
  return static_cast<double>(std::abs(static_cast<long double>(y) - exact) /
                             std::ldexp(1.0L, exponent - std::numeric_limits<T>::digits));
}

}  // namespace belfry::ops::simd
