// Detecting NaN and infinity.
#pragma once

#include <cstdint>
#include <string>

#include "framework/base/dtype.h"

namespace belfry {

// The non-finite values found in an array.
struct NonFinite {
  int64_t nans = 0, infinities = 0;
  int64_t first = -1;  // index of the first one; -1 if all values are finite

  bool any() const { return first >= 0; }
  // For example "2 NaN and 1 infinite values, the first at element 7".
  std::string ToString() const;
};

// Counts the non-finite values among `elements` values at `data` (host memory). Types that are not floating-point have
// none.
NonFinite FindNonFinite(DType dtype, const void* data, int64_t elements);

}  // namespace belfry
