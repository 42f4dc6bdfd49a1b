// The exact GELU in float32, for registers. For CPU kernels; GPUs have a
// fast erfc (functors.h).
//
// With t = |x|, x Phi(x) = max(x, 0) - t Phi(-t), and Phi(-t) = M(t) exp(-t^2 / 2), where M, half the scaled
// complementary error function of t / sqrt(2), is smooth. So nothing cancels, and small results keep their precision:
// relative errors are at most (5 + x^2) 2^-23, as of an x that is wrong in its last bit; those of the derivative are
// relative to its larger term. Beyond |x| = 13.19 the function is x or 0 and its derivative 1 or 0: what is missing is
// below 1e-37.
#pragma once

#include <bit>

#include "ops/simd/math_impl.h"

namespace belfry::ops::gelu {

// exp(-t^2 / 2) is a normal number up to here.
inline constexpr float kLimit = 13.19f;

// exp(-t^2 / 2) for t in [0, kLimit]: 2^n times a minimax polynomial for 2^f, where n + f = -t^2 log2(e) / 2.
template <class V>
V Exponential(V t) {
  constexpr float kHalfLog2E = 0.72134752044f, kRounder = simd::Format<float>::kRounder;
  const V square = t * t, rounded = kRounder - square * kHalfLog2E, n = rounded - kRounder;
  const V f = -n - square * kHalfLog2E;
  const V power = simd::PolynomialOf<V>(f, 0.0013264724573291906f, 0.009671513608796645f, 0.05550733759334059f,
                                        0.24022242069084243f, 0.6931469775846238f, 1.f);
  return std::bit_cast<V>(std::bit_cast<simd::Bits<V>>(power) + (std::bit_cast<simd::Bits<V>>(rounded) << 23));
}

template <class V>
V Value(V x) {
  const V t = simd::Abs(x), tail = t * simd::ScaledTail(t) * Exponential(t);
  return (x < 0 ? V{} : x) - (t > kLimit ? V{} : tail);
}

// The derivative, Phi(x) + x phi(x). Below 0 it is (M(t) - t / sqrt(2 pi)) exp(-t^2 / 2), above 0 the same from 1.
template <class V>
V Slope(V x) {
  constexpr float kInverseSqrtTwoPi = 0.3989422804014327f;
  const V t = simd::Abs(x), near = (simd::ScaledTail(t) - t * kInverseSqrtTwoPi) * Exponential(t);
  const V slope = t > kLimit ? V{} : near;
  return x < 0 ? slope : 1.f - slope;
}

}  // namespace belfry::ops::gelu
