// Elements as raw bits, and groups of elements that are moved at once. Only for .cu files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "absl/status/status.h"
#include "framework/device/cuda/launch.h"
#include "framework/graph/op_def.h"

namespace belfry::ops {

// A unit of `bytes` bytes that is moved at once: 1, 2, 4, 8 or 16.
template <int bytes>
struct BitsOfSize;
template <>
struct BitsOfSize<1> {
  using type = uint8_t;
};
template <>
struct BitsOfSize<2> {
  using type = uint16_t;
};
template <>
struct BitsOfSize<4> {
  using type = uint32_t;
};
template <>
struct BitsOfSize<8> {
  using type = uint64_t;
};
template <int bytes>
struct [[gnu::may_alias]] GpuUnit {
  typename BitsOfSize<bytes>::type bits;
};
template <>
struct [[gnu::may_alias]] alignas(16) GpuUnit<16> {
  uint64_t low, high;
};

inline constexpr int kWidestUnit = 16;

// Eight bytes filled with copies of the lowest `size` bytes of `element`.
inline uint64_t RepeatedBits(uint64_t element, size_t size) {
  for (size_t filled = size; filled < 8; filled *= 2) {
    element &= (uint64_t{1} << (8 * filled)) - 1;
    element |= element << (8 * filled);
  }
  return element;
}
template <int bytes>
GpuUnit<bytes> UnitOf(uint64_t repeated) {
  if constexpr (bytes == 16) {
    return {repeated, repeated};
  } else {
    return {static_cast<typename BitsOfSize<bytes>::type>(repeated)};
  }
}

// `n` adjacent elements that are read or written at once; aligned to their total size.
template <class T, int n>
struct [[gnu::may_alias]] alignas(sizeof(T) * n) GpuPack {
  T at[n];
};

// Calls make(std::integral_constant<int, bytes>()) with `bytes` as a constant.
template <class F>
auto WithUnit(size_t bytes, const F& make) {
  switch (bytes) {
    case 1: return make(std::integral_constant<int, 1>());
    case 2: return make(std::integral_constant<int, 2>());
    case 4: return make(std::integral_constant<int, 4>());
    case 8: return make(std::integral_constant<int, 8>());
    default: return make(std::integral_constant<int, 16>());
  }
}

// Enqueues filling `n` elements of `size` bytes with the lowest bytes of `bits`. Defined in ops/copy/constant.cu.
absl::Status GpuFill(Stream& stream, void* to, int64_t n, size_t size, uint64_t bits);

// GPU kernels of an op that moves bytes regardless of their meaning: the same factory for every dtype.
inline std::vector<KernelDef> AnyTypeGpuKernels(const KernelFactory& make) {
  std::vector<KernelDef> kernels;
  for (DType dtype : kAllDTypes) kernels.push_back({"GPU", dtype, make});
  return kernels;
}

}  // namespace belfry::ops
