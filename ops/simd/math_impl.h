// Exponentials, logarithms and their kin, without branches or calls, for CPU kernels. V is float, double or a register
// of them (vector_impl.h), and a value gives the same result in any place of a register.
//
// Results are within 2 ulp of the exact ones for all arguments, subnormal results included unless a comment says
// otherwise; infinities, NaN and the sign of 0 are those of the C library. tests/ops/simd/math_test.cc measures it.
//
// They are always inlined, since a call in a loop would load all coefficients again.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>

namespace belfry::ops::simd {

// The type of an element of V, and of its bits.
template <class V>
struct ElementOf {
  using type = std::remove_cvref_t<decltype(std::declval<V&>()[0])>;
};
template <>
struct ElementOf<float> {
  using type = float;
};
template <>
struct ElementOf<double> {
  using type = double;
};
template <class V>
using Element = typename ElementOf<V>::type;

template <class V>
struct BitsOf {
  using Int = std::conditional_t<sizeof(Element<V>) == 4, int32_t, int64_t>;
  using type [[gnu::vector_size(sizeof(V))]] = Int;
};
template <>
struct BitsOf<float> {
  using type = int32_t;
};
template <>
struct BitsOf<double> {
  using type = int64_t;
};
template <class V>
using Bits = typename BitsOf<V>::type;

template <class V>
[[gnu::always_inline]] inline V Fill(Element<V> x) {
  return V{} + x;
}

// Constants of the format: adding kRounder to a small number rounds it to an integer, which the low bits then hold.
template <class T>
struct Format {
  static constexpr bool kSingle = sizeof(T) == 4;
  static constexpr int kMantissa = std::numeric_limits<T>::digits - 1;
  static constexpr int kBias = std::numeric_limits<T>::max_exponent - 1;
  static constexpr T kRounder = kSingle ? T(0x1.8p23) : T(0x1.8p52);
  // ln 2 in two parts, the first with so few bits that its products with exponents are exact.
  static constexpr T kLn2High = kSingle ? T(0x1.63p-1) : T(0x1.62e42fee00000p-1);
  static constexpr T kLn2Low = kSingle ? T(-2.1219444005469057e-4) : T(1.9082149292705877e-10);
};

template <class V>
[[gnu::always_inline]] inline V Abs(V x) {
  constexpr auto kAllButSign = std::numeric_limits<typename BitsOf<Element<V>>::type>::max();
  return std::bit_cast<V>(std::bit_cast<Bits<V>>(x) & kAllButSign);
}
// |x| with the sign of `sign`.
template <class V>
[[gnu::always_inline]] inline V CopySign(V x, V sign) {
  constexpr auto kSign = std::numeric_limits<typename BitsOf<Element<V>>::type>::min();
  return std::bit_cast<V>((std::bit_cast<Bits<V>>(x) & ~kSign) | (std::bit_cast<Bits<V>>(sign) & kSign));
}

// Coefficients from the highest power down.
template <class V>
[[gnu::always_inline]] constexpr V Polynomial(V, V last) {
  return last;
}
template <class V, class... Rest>
[[gnu::always_inline]] constexpr V Polynomial(V x, V first, Element<V> second, Rest... rest) {
  return Polynomial(x, first * x + second, rest...);
}
template <class V, class... Rest>
[[gnu::always_inline]] inline V PolynomialOf(V x, Element<V> first, Rest... rest) {
  return Polynomial(x, Fill<V>(first), rest...);
}

// 2^n for an exponent of normal numbers.
template <class V>
[[gnu::always_inline]] inline V PowerOf2(Bits<V> n) {
  using F = Format<Element<V>>;
  return std::bit_cast<V>((n + F::kBias) << F::kMantissa);
}

// x = n ln 2 + r with |r| <= ln 2 / 2, n an integer; `rest` is what rounding took from r. |x| < 1500.
template <class V>
struct Reduced {
  V r, rest;
  Bits<V> n;

  explicit Reduced(V x) {
    using F = Format<Element<V>>;
    const V rounded = x * Element<V>(1.4426950408889634) + F::kRounder, whole = rounded - F::kRounder;
    const V high = x - whole * F::kLn2High;
    r = high - whole * F::kLn2Low;
    rest = (high - r) - whole * F::kLn2Low;
    n = std::bit_cast<Bits<V>>(rounded) - std::bit_cast<typename BitsOf<Element<V>>::type>(F::kRounder);
  }
};

// exp(r) for |r| <= ln 2 / 2: a minimax polynomial with an error of 3e-9, or Taylor's with one of 4e-18.
template <class V>
[[gnu::always_inline]] inline V ExpOfReduced(V r) {
  if constexpr (Format<Element<V>>::kSingle) {
    return PolynomialOf<V>(r, 1.381453809993459e-3f, 8.368745541342607e-3f, 4.166839084411601e-2f,
                           1.6666520394946308e-1f, 4.999999343179086e-1f, 1.f, 1.f);
  } else {
    return PolynomialOf<V>(r, 1. / 6227020800, 1. / 479001600, 1. / 39916800, 1. / 3628800, 1. / 362880, 1. / 40320,
                           1. / 5040, 1. / 720, 1. / 120, 1. / 24, 1. / 6, 0.5, 1., 1.);
  }
}

// exp(r + rest) - 1, in which only the last sum rounds visibly.
template <class V>
[[gnu::always_inline]] inline V Expm1OfReduced(const Reduced<V>& of) {
  const V r = of.r;
  V higher;
  if constexpr (Format<Element<V>>::kSingle) {
    higher = PolynomialOf<V>(r, 1.98412698e-4f, 1.38888889e-3f, 8.33333333e-3f, 4.16666667e-2f, 1.66666667e-1f, 0.5f);
  } else {
    higher = PolynomialOf<V>(r, 1. / 87178291200, 1. / 6227020800, 1. / 479001600, 1. / 39916800, 1. / 3628800,
                             1. / 362880, 1. / 40320, 1. / 5040, 1. / 720, 1. / 120, 1. / 24, 1. / 6, 0.5);
  }
  return r + (r * r * higher + of.rest);
}

// Scaling in two steps rounds once where the result is subnormal, and reaches both ends of the range. Comparisons let
// NaN through.
template <class V>
[[gnu::always_inline]] inline V Exp(V x) {
  using T = Element<V>;
  constexpr T kLow = sizeof(T) == 4 ? T(-104) : T(-746), kHigh = sizeof(T) == 4 ? T(89) : T(710);
  x = x < kLow ? Fill<V>(kLow) : x;
  x = x > kHigh ? Fill<V>(kHigh) : x;
  const Reduced<V> of(x);
  const Bits<V> half = of.n >> 1;
  return (T(1) + Expm1OfReduced(of)) * PowerOf2<V>(half) * PowerOf2<V>(of.n - half);
}

// 2^100 exp(x) for x <= 0: always a normal number. Multiplied by a factor of up to 10^9 and then by kScaledExpUnit, it
// rounds once where the product is subnormal, and gives 0 where the exact one would. NaN stays.
template <class T>
inline constexpr T kScaledExpUnit = T(0x1p-100);
template <class V>
[[gnu::always_inline]] inline V ScaledExpOfNegative(V x) {
  constexpr Element<V> kLow = sizeof(Element<V>) == 4 ? -125 : -770;
  const Reduced<V> of(x < kLow ? Fill<V>(kLow) : x);
  return ExpOfReduced(of.r) * PowerOf2<V>(of.n + 100);
}

// exp(x) for x <= 0, where results below the smallest normal number may be 0: a step less than Exp.
template <class V>
[[gnu::always_inline]] inline V ExpOfNegative(V x) {
  using T = Element<V>;
  constexpr T kLowest = sizeof(T) == 4 ? T(-87.33) : T(-708.39);
  const Reduced<V> of(x < kLowest ? Fill<V>(kLowest) : x);
  const V y = ExpOfReduced(of.r) * PowerOf2<V>(of.n);
  return x < kLowest ? V{} : y;
}

// 2^x for x up to about 0: 0 below the smallest normal number, and NaN of NaN. The remainder of x after rounding to an
// integer goes through the Taylor series of exp, whose first omitted term is below half a rounding.
template <class V>
[[gnu::always_inline]] inline V Exp2OfNegative(V x) {
  using T = Element<V>;
  using F = Format<T>;
  constexpr T kMinExponent = std::numeric_limits<T>::min_exponent - 1;
  constexpr auto kSeries = [] {
    std::array<T, F::kSingle ? 8 : 14> series{};
    double term = 1;
    for (size_t i = 0; i < series.size(); ++i) {
      series[i] = static_cast<T>(term);
      term *= 0.69314718055994530942 / static_cast<double>(i + 1);
    }
    return series;
  }();
  const auto below = x < kMinExponent;
  x = below ? Fill<V>(kMinExponent) : x;
  const V shifted = x + F::kRounder, rest = x - (shifted - F::kRounder);
  V power = Fill<V>(kSeries.back());
#pragma GCC unroll 16
  for (size_t i = 1; i < kSeries.size(); ++i) power = power * rest + kSeries[kSeries.size() - 1 - i];
  using Int = typename BitsOf<T>::type;
  const V y = power * PowerOf2<V>(std::bit_cast<Bits<V>>(shifted) - std::bit_cast<Int>(F::kRounder));
  return below ? V{} : y;
}

// exp(x) - 1. With e = exp(r) - 1, it is 2^n e + (2^n - 1), of which half is computed, so that 2^n is finite.
template <class V>
[[gnu::always_inline]] inline V Expm1(V x) {
  using T = Element<V>;
  constexpr T kLow = sizeof(T) == 4 ? T(-20) : T(-50), kHigh = sizeof(T) == 4 ? T(89) : T(710);
  V bounded = x < kLow ? Fill<V>(kLow) : x;
  bounded = bounded > kHigh ? Fill<V>(kHigh) : bounded;
  const Reduced<V> of(bounded);
  const V e = Expm1OfReduced(of), half_power = PowerOf2<V>(of.n - 1);
  const V y = (half_power * e + (half_power - T(0.5))) * T(2);
  return x == 0 ? x : y;
}

// log(x): x = 2^n (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)), and log(1 + f) as in Sun's fdlibm: with s = f / (2 + f)
// it is f - f^2 / 2 + s (f^2 / 2 + R(s^2)).
template <class V>
[[gnu::always_inline]] inline V Log(V x) {
  using T = Element<V>;
  using F = Format<T>;
  using Int = typename BitsOf<T>::type;
  constexpr Int kRootHalf = std::bit_cast<Int>(T(0.70710678118654752));
  constexpr T kLn2High = F::kSingle ? T(6.9313812256e-01) : T(6.93147180369123816490e-01);
  constexpr T kLn2Low = F::kSingle ? T(9.0580006145e-06) : T(1.90821492927058770002e-10);
  constexpr T kScale = T(Int{1} << (F::kMantissa + 1));
  const auto small = x < std::numeric_limits<T>::min();
  const V scaled = small ? x * kScale : x;
  const Bits<V> bits = std::bit_cast<Bits<V>>(Abs(scaled)), exponent = (bits - kRootHalf) >> F::kMantissa;
  const V f = std::bit_cast<V>(bits - (exponent << F::kMantissa)) - T(1);
  // An integer n becomes a float by way of the low bits of kRounder + n.
  V n = std::bit_cast<V>(exponent + std::bit_cast<Int>(F::kRounder)) - F::kRounder;
  n = small ? n - T(F::kMantissa + 1) : n;
  const V s = f / (T(2) + f), z = s * s, half_square = T(0.5) * f * f;
  V rest;
  if constexpr (F::kSingle) {
    rest = z * PolynomialOf<V>(z, 0.24279078841f, 0.28498786688f, 0.40000972152f, 0.66666662693f);
  } else {
    rest = z * PolynomialOf<V>(z, 1.479819860511658591e-01, 1.531383769920937332e-01, 1.818357216161805012e-01,
                               2.222219843214978396e-01, 2.857142874366239149e-01, 3.999999999940941908e-01,
                               6.666666666666735130e-01);
  }
  const V y = n * kLn2High - ((half_square - (s * (half_square + rest) + n * kLn2Low)) - f);
  constexpr T kInfinity = std::numeric_limits<T>::infinity(), kNaN = std::numeric_limits<T>::quiet_NaN();
  const V at_ends = x == 0 ? Fill<V>(-kInfinity) : x < 0 ? Fill<V>(kNaN) : x;  // also infinity and NaN
  return ((x > 0) & (x < kInfinity)) ? y : at_ends;
}

// log(1 + x): log of the rounded sum, and a first-order term for what rounding took from it.
template <class V>
[[gnu::always_inline]] inline V Log1p(V x) {
  using T = Element<V>;
  const V u = T(1) + x, lost = x > T(1) ? T(1) - (u - x) : x - (u - T(1));
  const V y = Log(u), corrected = y + lost / u;
  return x == 0 ? x : ((u > 0) & (u < std::numeric_limits<T>::infinity())) ? corrected : y;
}

// The last step takes back what rounding added to the divisor.
template <class V>
[[gnu::always_inline]] inline V Sigmoid(V x) {
  using T = Element<V>;
  const V e = Exp(-Abs(x)), divisor = T(1) + e, lost = e - (divisor - T(1));
  const V y = (x < 0 ? e : Fill<V>(T(1))) / divisor;
  return y - y * lost;
}

// Near 0, where a difference would lose digits, tanh is x (1 + x^2 r(x^2)) with the polynomial or the rational function
// r of Moshier's Cephes.
template <class V>
[[gnu::always_inline]] inline V Tanh(V x) {
  using T = Element<V>;
  const V size = Abs(x), square = x * x;
  V r;
  if constexpr (Format<T>::kSingle) {
    r = PolynomialOf<V>(square, -5.70498872745e-3f, 2.06390887954e-2f, -5.37397155531e-2f, 1.33314422036e-1f,
                        -3.33332819422e-1f);
  } else {
    r = PolynomialOf<V>(square, -9.64399179425052238628e-1, -9.92877231001918586564e1, -1.61468768441708447952e3) /
        PolynomialOf<V>(square, 1., 1.12811678491632931402e2, 2.23548839060100448583e3, 4.84406305325125486048e3);
  }
  // The clamp keeps infinity from the small branch, where it would be NaN; both compute.
  const V far = T(1) - T(2) / (Exp(T(2) * size) + T(1));
  return CopySign(size < T(0.625) ? size + size * (square * r) : far, x);
}

// The share of the normal distribution beyond t, times exp(t^2 / 2), for t in [0, 14.5] and float elements: a minimax
// polynomial in 1 / (1 + 0.23 t), 5e-8.
template <class V>
[[gnu::always_inline]] inline V ScaledTail(V t) {
  const V u = 1.f / (1.f + 0.23f * t);
  return PolynomialOf<V>(u, -0.07848419780108652f, 0.2904991371573537f, -0.27831147282103685f, 0.30169601290249876f,
                         -0.033084548789903565f, 0.11958934427798325f, 0.08574199734702731f, 0.09238167614480164f,
                         -2.797227210511455e-05f);
}

// The error function of float elements: below 1, x + x q(x^2) with a polynomial q (1.3e-9); beyond, 1 - erfc(x).
template <class V>
[[gnu::always_inline]] inline V Erf(V x) {
  const V size = Abs(x), bounded = size > 5.f ? Fill<V>(5.f) : size;
  const V q = PolynomialOf<V>(x * x, 7.875875079272581e-05f, -8.016864292008972e-04f, 5.189087423965639e-03f,
                              -2.685421201098790e-02f, 1.1283594715166652e-01f, -3.7612626666720944e-01f,
                              1.28379165848351e-01f);
  const V far = 1.f - 2.f * (ScaledTail(bounded * 1.41421356f) * ExpOfNegative(-bounded * bounded));
  return CopySign(size < 1.f ? size + size * q : far, x);
}

// log(1 + exp(-|x|)), the part of softplus(x) = max(x, 0) + log(1 + exp(-|x|)) that is not linear.
template <class V>
[[gnu::always_inline]] inline V SoftplusTail(V x) {
  return Log1p(Exp(-Abs(x)));
}

}  // namespace belfry::ops::simd
