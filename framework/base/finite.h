// Numbers that are none.
#pragma once

#include <cstdint>
#include <string>

#include "framework/base/dtype.h"

namespace belfry {

struct NonFinite {
  int64_t nans = 0, infinities = 0;
  int64_t first = -1;  // element; -1: all are finite

  bool any() const { return first >= 0; }
  // "2 NaN and 1 infinite values, the first at element 7".
  std::string ToString() const;
};

// Of `elements` values at `data`. Types that are not floats have none.
NonFinite FindNonFinite(DType dtype, const void* data, int64_t elements);

}  // namespace belfry
