// Rounding once where a conversion to 16 bits goes through float32.
#pragma once

#include <cstdint>
#include <type_traits>

namespace belfry {

// The float that rounds to float16 and bfloat16 as `value` itself, a number of any type, would. If no float equals
// `value`, it is of the two next to it the one whose last bit is 1 (Boldo and Melquiond, "Emulation of a FMA and
// correctly rounded sums: proved algorithms using rounding to odd", 2008). Works on GPUs, too.
template <class From>
constexpr float RoundToOdd(From value) {
  if constexpr (sizeof(From) < sizeof(int32_t) || std::is_same_v<From, float>) {
    return static_cast<float>(value);
  } else if constexpr (std::is_same_v<From, int32_t>) {
    return RoundToOdd(static_cast<double>(value));
  } else if constexpr (std::is_same_v<From, int64_t>) {
    constexpr int kShift = 11;  // a double holds the rest
    if (value >> 52 == value >> 63) return RoundToOdd(static_cast<double>(value));
    const int64_t lost = value & ((int64_t{1} << kShift) - 1);
    return RoundToOdd(static_cast<double>(value >> kShift | (lost != 0)) * (1 << kShift));
  } else {
    static_assert(std::is_same_v<From, double>);
    const auto nearest = static_cast<float>(value);
    const auto bits = __builtin_bit_cast(uint32_t, nearest);
    const double distance = static_cast<double>(nearest) - value;
    if (distance == 0 || distance != distance || (bits & 1) != 0) return nearest;
    return __builtin_bit_cast(float, (distance > 0) == (value > 0) ? bits - 1 : bits + 1);
  }
}

}  // namespace belfry
