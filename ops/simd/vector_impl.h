// Vector registers of the processor that is compiled for. For CPU kernels.
#pragma once

#include <Eigen/Core>
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "framework/base/half.h"

namespace belfry::ops::simd {

// 64 with AVX-512, 32 with AVX, otherwise 16, as Eigen finds out. (__BIGGEST_ALIGNMENT__ is that of g++ only.)
inline constexpr int kRegisterBytes = std::min(EIGEN_MAX_ALIGN_BYTES, 64);

// A register of elements C, float or double, which takes the operators of C, and comparisons, whose result `Mask` has
// all bits of a lane set or none.
template <class C>
struct Vector {
  static constexpr int kLanes = kRegisterBytes / static_cast<int>(sizeof(C));
  using Int = std::conditional_t<sizeof(C) == 4, int32_t, int64_t>;
  using Lanes [[gnu::vector_size(kRegisterBytes)]] = C;
  using Mask [[gnu::vector_size(kRegisterBytes)]] = Int;
  using Unaligned [[gnu::vector_size(kRegisterBytes), gnu::aligned(sizeof(C)), gnu::may_alias]] = C;

  static Lanes Load(const C* from) { return *reinterpret_cast<const Unaligned*>(from); }
  static void Store(Lanes x, C* to) { *reinterpret_cast<Unaligned*>(to) = x; }
  static Lanes Fill(C x) { return Lanes{} + x; }
  static Lanes Choose(Mask condition, Lanes a, Lanes b) { return condition ? a : b; }
  static Lanes Relu(Lanes x) { return Choose(x < 0, Lanes{}, x); }  // NaN stays NaN
  // NaN in x does not replace `top`.
  static Lanes Max(Lanes top, Lanes x) { return Choose(x > top, x, top); }
};

// Load and Store convert between elements as they are stored and the type in which they are computed.
inline Vector<float>::Lanes Load(const float* from) { return Vector<float>::Load(from); }
inline void Store(Vector<float>::Lanes x, float* to) { Vector<float>::Store(x, to); }
inline Vector<double>::Lanes Load(const double* from) { return Vector<double>::Load(from); }
inline void Store(Vector<double>::Lanes x, double* to) { Vector<double>::Store(x, to); }

// bfloat16 is the upper half of a float. Storing rounds to nearest, ties to even, and keeps NaN a NaN.
inline Vector<float>::Lanes Load(const BFloat16* from) {
  constexpr int kBytes = kRegisterBytes / 2;
  using Narrow [[gnu::vector_size(kBytes), gnu::aligned(2), gnu::may_alias]] = uint16_t;
  using Wide [[gnu::vector_size(kRegisterBytes)]] = uint32_t;
  return (Vector<float>::Lanes)(__builtin_convertvector(*reinterpret_cast<const Narrow*>(from), Wide) << 16);
}
inline void Store(Vector<float>::Lanes x, BFloat16* to) {
  constexpr int kBytes = kRegisterBytes / 2;
  using Narrow [[gnu::vector_size(kBytes)]] = uint16_t;
  using Unaligned [[gnu::vector_size(kBytes), gnu::aligned(2), gnu::may_alias]] = uint16_t;
  using Wide [[gnu::vector_size(kRegisterBytes)]] = uint32_t;
  const Wide bits = (Wide)x, quiet = (bits >> 16) | 0x40, rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  const Wide is_nan = (Wide)(x != x);
  *reinterpret_cast<Unaligned*>(to) = __builtin_convertvector((is_nan & quiet) | (~is_nan & rounded), Narrow);
}

inline Vector<float>::Lanes Load(const Half* from) {
  using V = Vector<float>;
  alignas(kRegisterBytes) float wide[V::kLanes];
  Eigen::Map<Eigen::Array<float, V::kLanes, 1>> to(wide);
  to = Eigen::Map<const Eigen::Array<Half, V::kLanes, 1>>(from).cast<float>();
  return V::Load(wide);
}
inline void Store(Vector<float>::Lanes x, Half* to) {
  using V = Vector<float>;
  alignas(kRegisterBytes) float wide[V::kLanes];
  V::Store(x, wide);
  Eigen::Map<Eigen::Array<Half, V::kLanes, 1>> narrow(to);
  narrow = Eigen::Map<const Eigen::Array<float, V::kLanes, 1>>(wide).cast<Half>();
}

// The same for the first n lanes of a register; Load fills the others with zeros.
template <class T>
auto Load(const T* from, int64_t n) {
  T all[kRegisterBytes / sizeof(float)] = {};
  std::memcpy(static_cast<void*>(all), from, static_cast<size_t>(n) * sizeof(T));
  return Load(all);
}
template <class Lanes, class T>
void Store(Lanes x, T* to, int64_t n) {
  T all[kRegisterBytes / sizeof(float)];
  Store(x, all);
  std::memcpy(static_cast<void*>(to), all, static_cast<size_t>(n) * sizeof(T));
}

// y[i] = f(x[i]), where f takes registers; y may be x. The last elements go through a register, too, so the result of
// an element does not depend on its position.
template <class C, class F>
void Map(int64_t n, const C* x, C* y, const F& f) {
  using V = Vector<C>;
  int64_t i = 0;
  for (; i + V::kLanes <= n; i += V::kLanes) V::Store(f(V::Load(x + i)), y + i);
  if (i == n) return;
  C rest[V::kLanes] = {};
  std::memcpy(rest, x + i, static_cast<size_t>(n - i) * sizeof(C));
  V::Store(f(V::Load(rest)), rest);
  std::memcpy(y + i, rest, static_cast<size_t>(n - i) * sizeof(C));
}
// The same of two operands.
template <class C, class F>
void Map(int64_t n, const C* a, const C* b, C* y, const F& f) {
  using V = Vector<C>;
  int64_t i = 0;
  for (; i + V::kLanes <= n; i += V::kLanes) V::Store(f(V::Load(a + i), V::Load(b + i)), y + i);
  if (i == n) return;
  C rest_a[V::kLanes] = {}, rest_b[V::kLanes] = {};
  std::memcpy(rest_a, a + i, static_cast<size_t>(n - i) * sizeof(C));
  std::memcpy(rest_b, b + i, static_cast<size_t>(n - i) * sizeof(C));
  V::Store(f(V::Load(rest_a), V::Load(rest_b)), rest_a);
  std::memcpy(y + i, rest_a, static_cast<size_t>(n - i) * sizeof(C));
}

}  // namespace belfry::ops::simd
