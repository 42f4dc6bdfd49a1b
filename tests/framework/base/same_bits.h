#pragma once

#include <cstring>

#include "framework/base/tensor.h"

namespace belfry {

// As EXPECT_EQ would compare them, but that NaN equals itself and 0 does not equal -0.
inline bool SameBits(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         (a.bytes() == 0 || std::memcmp(a.raw(), b.raw(), a.bytes()) == 0);
}

}  // namespace belfry
