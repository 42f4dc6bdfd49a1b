// The exact GELU in float32, without branches or calls, so that loops over it vectorise. For CPU kernels; GPUs have a
// fast erfc (functors.h).
//
// With t = |x|, x Phi(x) = max(x, 0) - t Phi(-t), and Phi(-t) = M(t) exp(-t^2 / 2), where M, half the scaled
// complementary error function of t / sqrt(2), is smooth. So nothing cancels, and small results keep their precision:
// relative errors are at most (5 + x^2) 2^-23, as of an x that is wrong in its last bit; those of the derivative are
// relative to its larger term. Beyond |x| = 13.19 the function is x or 0 and its derivative 1 or 0: what is missing is
// below 1e-37.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "ops/common/vector_math_impl.h"

namespace belfry::ops::gelu {

// exp(-t^2 / 2) is a normal number up to here.
inline constexpr float kLimit = 13.19f;

// Phi(-t) exp(t^2 / 2) for t in [0, 14.5], by a minimax polynomial in 1 / (1 + 0.23 t): 5e-8.
inline float Tail(float t) {
  const float u = 1 / (1 + 0.23f * t);
  return Polynomial(u, -0.07848419780108652f, 0.2904991371573537f, -0.27831147282103685f, 0.30169601290249876f,
                    -0.033084548789903565f, 0.11958934427798325f, 0.08574199734702731f, 0.09238167614480164f,
                    -2.797227210511455e-05f);
}

// exp(-t^2 / 2) for t in [0, kLimit]: 2^n times a minimax polynomial for 2^f, where n + f = -t^2 log2(e) / 2.
inline float Exponential(float t) {
  constexpr float kHalfLog2E = 0.72134752044f, kRounder = FloatBits<float>::kRounder;
  const float square = t * t, rounded = kRounder - square * kHalfLog2E, n = rounded - kRounder;
  const float f = -n - square * kHalfLog2E;
  const float power = Polynomial(f, 0.0013264724573291906f, 0.009671513608796645f, 0.05550733759334059f,
                                 0.24022242069084243f, 0.6931469775846238f, 1.f);
  return std::bit_cast<float>(std::bit_cast<uint32_t>(power) + (std::bit_cast<uint32_t>(rounded) << 23));
}

inline float Value(float x) {
  const float t = std::abs(x), tail = t * Tail(t) * Exponential(t);
  return (x < 0 ? 0 : x) - (t > kLimit ? 0 : tail);
}

// The derivative, Phi(x) + x phi(x). Below 0 it is (M(t) - t / sqrt(2 pi)) exp(-t^2 / 2), above 0 the same from 1.
inline float Slope(float x) {
  constexpr float kInverseSqrtTwoPi = 0.3989422804014327f;
  const float t = std::abs(x), near = (Tail(t) - t * kInverseSqrtTwoPi) * Exponential(t);
  const float slope = t > kLimit ? 0 : near;
  return x < 0 ? slope : 1 - slope;
}

}  // namespace belfry::ops::gelu
