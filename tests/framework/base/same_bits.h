#pragma once

#include <cstring>

#include "framework/base/tensor.h"

namespace belfry {

// Bitwise equality of dtype, shape and elements. Unlike EXPECT_EQ, NaN equals itself and 0 differs from -0.
inline bool SameBits(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         (a.bytes() == 0 || std::memcmp(a.raw(), b.raw(), a.bytes()) == 0);
}

}  // namespace belfry
