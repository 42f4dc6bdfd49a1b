// Conversions between element types in device code. Only for .cu files.
#pragma once

#include <type_traits>

#include "framework/device/cuda/launch.h"
#include "ops/copy/convert.h"

namespace belfry::ops {

// ConvertElement (ops/copy/convert_impl.h) for a number that is not a 16-bit float.
template <class To, class Number>
BELFRY_GPU inline gpu::Stored<To> GpuFromNumber(Number value) {
  if constexpr (gpu::kIsSixteenBit<To>) {
    return gpu::Narrow<To>(ConvertNumber<float>(value));
  } else {
    return ConvertNumber<To>(value);
  }
}
// The same for a stored element of any dtype.
template <class To, class From>
BELFRY_GPU inline gpu::Stored<To> GpuConvert(gpu::Stored<From> value) {
  if constexpr (std::is_same_v<To, From>) {
    return value;
  } else {
    return GpuFromNumber<To>(gpu::Widen(value));
  }
}

}  // namespace belfry::ops
