// Functors that CPU kernels evaluate on registers, where a loop of calls of the C library would be slow.
#pragma once

#include "ops/elementwise/functors.h"
#include "ops/simd/math_impl.h"

namespace belfry::ops::functor {

template <class T, class V>
V OnRegister(const Exp<T>&, V x) {
  return simd::Exp(x);
}
template <class T, class V>
V OnRegister(const Expm1<T>&, V x) {
  return simd::Expm1(x);
}
template <class T, class V>
V OnRegister(const Log<T>&, V x) {
  return simd::Log(x);
}
template <class T, class V>
V OnRegister(const Log1p<T>&, V x) {
  return simd::Log1p(x);
}
template <class T, class V>
V OnRegister(const Tanh<T>&, V x) {
  return simd::Tanh(x);
}
template <class T, class V>
V OnRegister(const Sigmoid<T>&, V x) {
  return simd::Sigmoid(x);
}
template <class V>
V OnRegister(const Erf<float>&, V x) {
  return simd::Erf(x);
}

}  // namespace belfry::ops::functor
