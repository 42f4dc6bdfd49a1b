// The functions of gates on CPUs. Internal.
#pragma once

#include "ops/simd/math_impl.h"

namespace belfry::ops::recurrent {

// Within 3 ulp, and 0 below the smallest normal number, in fewer operations than simd::Sigmoid and simd::Tanh. NaN
// stays.
template <class V>
[[gnu::always_inline]] inline V GateSigmoid(V x) {
  using T = simd::Element<V>;
  const V e = simd::ExpOfNegative(-simd::Abs(x));
  return (x < 0 ? e : simd::Fill<V>(T(1))) / (T(1) + e);
}

// With m = exp(-2 |x|) - 1, the hyperbolic tangent of |x| is -m / (2 + m).
template <class V>
[[gnu::always_inline]] inline V GateTanh(V x) {
  using T = simd::Element<V>;
  constexpr T kLow = sizeof(T) == 4 ? T(-20) : T(-50);  // m is -1 from there on
  const V exponent = T(-2) * simd::Abs(x);
  const simd::Reduced<V> of(exponent < kLow ? simd::Fill<V>(kLow) : exponent);
  const V power = simd::PowerOf2<V>(of.n), m = power * simd::Expm1OfReduced(of) + (power - T(1));
  return simd::CopySign(m / (T(2) + m), x);
}

}  // namespace belfry::ops::recurrent
