// Units, and numbers of things, in messages.
#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace belfry {

inline constexpr double kMebi = 1024.0 * 1024.0;

// "1 step", "2 steps", for a noun whose plural ends in s.
inline std::string Counted(int64_t count, absl::string_view noun) {
  return absl::StrCat(count, " ", noun, count == 1 ? "" : "s");
}

}  // namespace belfry
