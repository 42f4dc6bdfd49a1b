// What the elements of kernels for CPUs are computed in.
#pragma once

#include <cstdint>
#include <type_traits>

#include "framework/base/half.h"

namespace belfry::ops {

template <class T>
inline constexpr bool kIsSixteenBit = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;
// What elements of T are computed in: float for the 16-bit floats, else T.
template <class T>
using Compute = std::conditional_t<kIsSixteenBit<T>, float, T>;

// 16-bit floats are converted to float in blocks of this many elements: small enough for the first-level cache.
inline constexpr int64_t kBlock = 256;

}  // namespace belfry::ops
