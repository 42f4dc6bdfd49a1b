// Infinity and NaN.
#pragma once

#include <limits>

namespace belfry {

inline constexpr float kInfinity = std::numeric_limits<float>::infinity();
inline constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

}  // namespace belfry
