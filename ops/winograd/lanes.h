// One vector register of floats. Internal.
#pragma once

#include <Eigen/Core>
#include <cstdint>
#include <cstring>

namespace belfry::ops::winograd {

// As many as the processor that this is compiled for has: 16 with AVX-512, 8 with AVX2, 4 without.
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
// The first `count` floats, then zeros.
inline Lanes LoadSome(const float* from, int64_t count) {
  float lanes[kLanes] = {};
  std::memcpy(lanes, from, static_cast<size_t>(count) * sizeof(float));
  return Load(lanes);
}

}  // namespace belfry::ops::winograd
