// Distributions drawn from random words, each formula written once for the CPU and the CUDA kernels. T is float or
// double. constexpr allows nvcc to compile them for the device (--expt-relaxed-constexpr).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "framework/base/philox.h"

namespace belfry::ops {

// (base + range * u) unit for u in [0, 1), clamped to `last`, because for the largest u the sum rounds up to the end of
// the range. Rounded once (fma), so it is the same on every device. `unit` is 1, or 2 for a range that exceeds the
// largest T.
template <class T>
struct UniformDraw {
  T base, range, last, unit;
  constexpr T operator()(uint32_t high, uint32_t low) const {
    T u = 0;
    if constexpr (std::is_same_v<T, double>) {
      u = UniformDouble(high, low);
    } else {
      u = static_cast<float>(static_cast<int32_t>(high >> 8)) * 0x1p-24f;
    }
    return std::min(std::fma(range, u, base) * unit, last);
  }
};

// low + floor(u * range), with u a 64-bit fraction in [0, 1).
template <class T>
struct UniformIntDraw {
  uint64_t low, range;
  constexpr T operator()(uint32_t high_word, uint32_t low_word) const {
    const uint64_t bits = (uint64_t{high_word} << 32) | low_word;
    // The upper half of bits * range, in 64-bit arithmetic.
    const uint64_t low_product = (bits & 0xffffffff) * (range & 0xffffffff);
    const uint64_t mid = (bits >> 32) * (range & 0xffffffff) + (low_product >> 32);
    const uint64_t mid2 = (bits & 0xffffffff) * (range >> 32) + (mid & 0xffffffff);
    const uint64_t drawn = (bits >> 32) * (range >> 32) + (mid >> 32) + (mid2 >> 32);
    return static_cast<T>(static_cast<int64_t>(low + drawn));
  }
};

// 1 for words below the threshold: always for 2^32, never for 0.
template <class T>
struct BernoulliDraw {
  uint64_t threshold;
  constexpr T operator()(uint32_t word, uint32_t) const { return word < threshold ? T(1) : T(0); }
};

// --- Quantiles of the normal distribution. A is float, or an Eigen array of float ---

template <size_t terms, class A>
constexpr A Polynomial(const float (&coefficients)[terms], const A& x) {
  A sum = coefficients[0] * x + coefficients[1];
  for (size_t i = 2; i < terms; ++i) sum = sum * x + coefficients[i];
  return sum;
}

// sqrt(2) * erfinv(x) after M. Giles, "Approximating the erfinv function" (GPU Computing Gems, 2011), in single
// precision: CentralQuantile for w < 5, otherwise TailQuantile from the square root of w. w = -log((1 - x) * (1 + x));
// the caller passes it, because near +-1 it can compute it more accurately than from x.
template <class A>
constexpr A CentralQuantile(const A& x, const A& w) {
  constexpr float kCentral[] = {2.81022636e-08f, 3.43273939e-07f, -3.5233877e-06f, -4.39150654e-06f, 0.00021858087f,
                                -0.00125372503f, -0.00417768164f, 0.246640727f,    1.50140941f};
  return 1.41421356f * x * Polynomial<9, A>(kCentral, w - 2.5f);
}
template <class A>
constexpr A TailQuantile(const A& x, const A& root) {
  constexpr float kTail[] = {-0.000200214257f, 0.000100950558f, 0.00134934322f, -0.00367342844f, 0.00573950773f,
                             -0.0076224613f,   0.00943887047f,  1.00167406f,    2.83297682f};
  return 1.41421356f * x * Polynomial<9, A>(kTail, root - 3.0f);
}

inline constexpr double kWithinTwo = 0.95449973610364158;  // erf(sqrt(2)): the probability of |z| < 2

// The quantile of the probability (word + 1/2) / 2^32, in the normal distribution or, if truncated, in its restriction
// to |z| < 2.
template <bool truncated>
constexpr float StandardNormal(uint32_t word) {
  // x = 2 p - 1 is an odd function of the words, so the distribution is symmetric to the last bit.
  const float centred = static_cast<float>(static_cast<int32_t>(word + 0x80000000u));
  if constexpr (truncated) {
    const float x = (centred + 0.5f) * (0x1p-31f * static_cast<float>(kWithinTwo));
    return CentralQuantile(x, -std::log((1.0f - x) * (1.0f + x)));
  } else {
    const float x = (centred + 0.5f) * 0x1p-31f;
    const float tail = (static_cast<float>(static_cast<int32_t>(std::min(word, ~word))) + 0.5f) * 0x1p-32f;
    const float w = -std::log(4.0f * tail * (1.0f - tail));
    return w < 5.0f ? CentralQuantile(x, w) : TailQuantile(x, std::sqrt(w));
  }
}

// One step of Halley's method on the distribution function, which cubes the relative error of `approximate`.
template <bool truncated>
constexpr double RefinedNormal(float approximate, uint32_t high, uint32_t low) {
  constexpr double kRootOfHalf = 0.70710678118654752440, kRootOfTwoPi = 2.50662827463100050242;
  const bool negative = high < 0x80000000u;
  // The probability of exceeding |z|, computed on the side without cancellation.
  const double side = (static_cast<double>(negative ? high : ~high) * 0x1p32 + (negative ? low : ~low) + 0.5) * 0x1p-64;
  const double tail = truncated ? 0.5 * (1 - kWithinTwo) + kWithinTwo * side : side;
  const double z = std::fabs(static_cast<double>(approximate));
  const double error = (tail - 0.5 * std::erfc(z * kRootOfHalf)) * kRootOfTwoPi * std::exp(0.5 * z * z);
  const double refined = z - error / (1 + 0.5 * z * error);
  return negative ? -refined : refined;
}

// A normal number with the given mean and standard deviation; `truncated` restricts it to two deviations.
template <class T, bool truncated>
struct NormalDraw {
  T mean, stddev;
  constexpr T operator()(uint32_t high, uint32_t low) const {
    const float z = StandardNormal<truncated>(high);
    if constexpr (std::is_same_v<T, double>) {
      return mean + stddev * RefinedNormal<truncated>(z, high, low);
    } else {
      return mean + stddev * z;
    }
  }
};

}  // namespace belfry::ops
