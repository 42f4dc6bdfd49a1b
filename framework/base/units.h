// Units for printing.
#pragma once

namespace belfry {

inline constexpr double kMebi = 1024.0 * 1024.0;

}  // namespace belfry
