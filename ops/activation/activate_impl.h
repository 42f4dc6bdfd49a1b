// Activations on registers, for CPU kernels (OnRegister, ops/elementwise/registers_impl.h). They are always inlined: as
// calls from the loop, the longer ones take a tenth more.
#pragma once

#include "ops/activation/activate.h"
#include "ops/activation/gelu_impl.h"
#include "ops/simd/math_impl.h"
#include "ops/simd/vector_impl.h"

namespace belfry::ops::functor {

// x between -kGateLimit and kGateLimit; NaN stays.
template <class C, class V>
V ClampedGate(V x) {
  const V low = simd::Fill<V>(-C(kGateLimit)), high = -low;
  x = x < low ? low : x;
  return x > high ? high : x;
}

template <class T, class V>
[[gnu::always_inline]] inline V OnRegister(const Elu<T>& f, V x) {
  return x < 0 ? f.negative * simd::Expm1(x) : f.positive * x;
}
template <class V>
[[gnu::always_inline]] inline V OnRegister(const Gelu<float>&, V x) {
  return gelu::Value(x);
}
template <class T, class V>
[[gnu::always_inline]] inline V OnRegister(const Softplus<T>&, V x) {
  return (x > 0 ? x : V{}) + simd::SoftplusTail(x);
}
// With exp(-|g|) nothing overflows. Where g < 0 it is a factor of the result, and may be subnormal where the result is
// not: it comes scaled up, and the result is scaled down.
template <class T, template <class> class Gate, class V>
[[gnu::always_inline]] inline V OnRegister(const Gated<T, Gate>&, V x) {
  const V g = Gate<T>::Value(ClampedGate<T>(x)), e = simd::ScaledExpOfNegative(-simd::Abs(g));
  const V bounded = x < -T(kGateLimit) ? ClampedGate<T>(x) : x;
  return (g < 0 ? bounded * e * simd::kScaledExpUnit<T> : bounded) / (T(1) + e * simd::kScaledExpUnit<T>);
}

}  // namespace belfry::ops::functor
