// The types in which CPU kernels compute elements, and conversions between them and the stored types.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "framework/base/half.h"

namespace belfry::ops {

template <class T>
inline constexpr bool kIsSixteenBit = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;
// The type in which elements of T are computed: float for the 16-bit floats, otherwise T.
template <class T>
using Compute = std::conditional_t<kIsSixteenBit<T>, float, T>;

// 16-bit floats are converted to float in blocks of this many elements, which fit in the L1 cache.
inline constexpr int64_t kBlock = 256;

void ToFloat(const Half* x, float* y, int64_t n);
void ToFloat(const BFloat16* x, float* y, int64_t n);
void FromFloat(const float* x, Half* y, int64_t n);
void FromFloat(const float* x, BFloat16* y, int64_t n);

template <class T>
void Load(const T* from, int64_t n, Compute<T>* to) {
  if constexpr (kIsSixteenBit<T>) {
    ToFloat(from, to, n);
  } else {
    std::copy_n(from, n, to);
  }
}
template <class T>
void Store(const Compute<T>* from, int64_t n, T* to) {
  if constexpr (kIsSixteenBit<T>) {
    FromFloat(from, to, n);
  } else if (from != to) {
    std::copy_n(from, n, to);
  }
}

// n elements in the type they are computed in: x itself, or a converted copy in `buffer`.
template <class T>
const Compute<T>* Widened(const T* x, Compute<T>* buffer, int64_t n) {
  if constexpr (kIsSixteenBit<T>) {
    ToFloat(x, buffer, n);
    return buffer;
  } else {
    return x;
  }
}
// Wide returns where to compute elements of y: y itself, or `buffer`. Narrowed then rounds them to y if that is
// elsewhere.
template <class T>
Compute<T>* Wide(T* y, Compute<T>* buffer) {
  if constexpr (kIsSixteenBit<T>) {
    return buffer;
  } else {
    return y;
  }
}
template <class T>
void Narrowed(const Compute<T>* computed, T* y, int64_t n) {
  if constexpr (kIsSixteenBit<T>) FromFloat(computed, y, n);
}

}  // namespace belfry::ops
