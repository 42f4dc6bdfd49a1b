// Functions without branches or calls, so that compilers vectorise loops over them. For CPU kernels.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>

namespace belfry::ops {

// Coefficients from the highest power down.
template <class T>
constexpr T Polynomial(T, T last) {
  return last;
}
template <class T, class... Rest>
constexpr T Polynomial(T x, T first, T second, Rest... rest) {
  return Polynomial(x, first * x + second, rest...);
}

// Adding kRounder to a small number rounds it to an integer, which the low bits of the sum then hold.
template <class T>
struct FloatBits;
template <>
struct FloatBits<float> {
  using Bits = uint32_t;
  static constexpr int kMantissa = 23;
  static constexpr float kRounder = 0x1.8p23f;
};
template <>
struct FloatBits<double> {
  using Bits = uint64_t;
  static constexpr int kMantissa = 52;
  static constexpr double kRounder = 0x1.8p52;
};

// exp(x) for x <= 0 and NaN, within 2 ulp. Results below the smallest normal number are 0.
//
// x = n ln 2 + r with |r| <= ln 2 / 2, so exp(x) = 2^n exp(r). ln 2 is split in two, the first part with so few bits
// that n times it is exact.
template <class T>
inline T ExpOfNegative(T x) {
  using F = FloatBits<T>;
  using Bits = typename F::Bits;
  constexpr bool kSingle = std::is_same_v<T, float>;
  constexpr T kLog2E = T(1.4426950408889634), kLowest = kSingle ? T(-87.33) : T(-708.39);
  constexpr T kLn2High = kSingle ? T(0x1.63p-1) : T(0x1.62e42fee00000p-1);
  constexpr T kLn2Low = kSingle ? T(-2.1219444005469057e-4) : T(1.9082149292705877e-10);
  const T rounded = x * kLog2E + F::kRounder, n = rounded - F::kRounder;
  const T r = (x - n * kLn2High) - n * kLn2Low;
  T mantissa;
  if constexpr (kSingle) {  // a minimax polynomial: 3e-9
    mantissa = Polynomial(r, 1.381453809993459e-3f, 8.368745541342607e-3f, 4.166839084411601e-2f,
                          1.6666520394946308e-1f, 4.999999343179086e-1f, 1.f, 1.f);
  } else {  // Taylor's: 4e-18
    mantissa = Polynomial(r, 1. / 6227020800, 1. / 479001600, 1. / 39916800, 1. / 3628800, 1. / 362880, 1. / 40320,
                          1. / 5040, 1. / 720, 1. / 120, 1. / 24, 1. / 6, 0.5, 1., 1.);
  }
  const Bits exponent = std::bit_cast<Bits>(rounded) << F::kMantissa;
  const T scaled = mantissa * std::bit_cast<T>(static_cast<Bits>(exponent + std::bit_cast<Bits>(T(1))));
  return x < kLowest ? T(0) : scaled;
}

// 1 / (1 + exp(-x)), within 4 ulp where that is a normal number.
template <class T>
inline T SigmoidOf(T x) {
  const T e = ExpOfNegative(-std::abs(x));
  return (x < 0 ? e : T(1)) / (1 + e);
}

// tanh(x), within 4 ulp. Near 0, where a difference of exponentials would lose digits, it is x (1 + x^2 r(x^2)) with
// the polynomial or the rational function r of Moshier's Cephes.
template <class T>
inline T TanhOf(T x) {
  const T size = std::abs(x), e = ExpOfNegative(-2 * size), square = x * x;
  T r;
  if constexpr (std::is_same_v<T, float>) {
    r = Polynomial(square, -5.70498872745e-3f, 2.06390887954e-2f, -5.37397155531e-2f, 1.33314422036e-1f,
                   -3.33332819422e-1f);
  } else {
    r = Polynomial(square, -9.64399179425052238628e-1, -9.92877231001918586564e1, -1.61468768441708447952e3) /
        Polynomial(square, 1., 1.12811678491632931402e2, 2.23548839060100448583e3, 4.84406305325125486048e3);
  }
  return size < T(0.625) ? x * (1 + square * r) : std::copysign((1 - e) / (1 + e), x);
}

}  // namespace belfry::ops
