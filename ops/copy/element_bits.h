#pragma once

#include <cstdint>

#include "framework/base/dtype.h"

namespace belfry::ops {

// The bits of `value` converted to `dtype` (ConvertElement), in the lowest SizeOf(dtype) bytes.
uint64_t ElementBits(double value, DType dtype);

}  // namespace belfry::ops
