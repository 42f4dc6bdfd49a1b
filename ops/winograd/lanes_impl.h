// Vector registers of floats. Internal.
#pragma once

#include <Eigen/Core>
#include <cstdint>

#include "framework/base/half.h"

namespace belfry::ops::winograd {

// Floats per register of the target processor: 16 with AVX-512, 8 with AVX2, otherwise 4.
inline constexpr int kLanes = Eigen::internal::packet_traits<float>::size;

using Lanes = float __attribute__((vector_size(kLanes * sizeof(float))));

inline Lanes Load(const float* from) {
  using Unaligned = float __attribute__((vector_size(kLanes * sizeof(float)), aligned(4), may_alias));
  return *reinterpret_cast<const Unaligned*>(from);
}
inline void Store(Lanes x, float* to) {
  using Unaligned = float __attribute__((vector_size(kLanes * sizeof(float)), aligned(4), may_alias));
  *reinterpret_cast<Unaligned*>(to) = x;
}

// bfloat16 is the upper half of a float. Storing rounds to nearest, ties to even, and keeps NaN a NaN.
inline Lanes Load(const BFloat16* from) {
  using Narrow = uint16_t __attribute__((vector_size(kLanes * sizeof(uint16_t)), aligned(2), may_alias));
  using Wide = uint32_t __attribute__((vector_size(kLanes * sizeof(uint32_t))));
  return (Lanes)(__builtin_convertvector(*reinterpret_cast<const Narrow*>(from), Wide) << 16);
}
inline void Store(Lanes x, BFloat16* to) {
  using Narrow = uint16_t __attribute__((vector_size(kLanes * sizeof(uint16_t))));
  using Unaligned = uint16_t __attribute__((vector_size(kLanes * sizeof(uint16_t)), aligned(2), may_alias));
  using Wide = uint32_t __attribute__((vector_size(kLanes * sizeof(uint32_t))));
  const Wide bits = (Wide)x, quiet = (bits >> 16) | 0x40, rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  const Wide is_nan = (Wide)(x != x);
  *reinterpret_cast<Unaligned*>(to) = __builtin_convertvector((is_nan & quiet) | (~is_nan & rounded), Narrow);
}

}  // namespace belfry::ops::winograd
