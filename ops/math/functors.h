// Element-wise formulas as scalar functors, each written once for the CPU and the CUDA kernels. T is float or double
// (16-bit floats are computed in float) or an integer type, whose arithmetic wraps around.
//
// `constexpr` lets nvcc compile them for the device (--expt-relaxed-constexpr). A functor whose loop compilers do not
// vectorise by themselves has Vector(x): the same formula on an Eigen array. kCost: about the scalar operations of one
// call, 1 if it is not there.
#pragma once

#include <cmath>
#include <limits>
#include <type_traits>

namespace belfry::ops::functor {

// The type in which sums, differences and products of T are computed: unsigned for integers, where overflow wraps.
template <class T, bool = std::is_integral_v<T>>
struct Wrapping {
  using type = T;
};
template <class T>
struct Wrapping<T, true> {
  using type = std::conditional_t<(sizeof(T) < 4), unsigned, std::make_unsigned_t<T>>;
};
template <class T>
constexpr auto Wrap(T x) {
  return static_cast<typename Wrapping<T>::type>(x);
}

template <class T>
struct Add {
  constexpr T operator()(T a, T b) const { return static_cast<T>(Wrap(a) + Wrap(b)); }
};
template <class T>
struct Sub {
  constexpr T operator()(T a, T b) const { return static_cast<T>(Wrap(a) - Wrap(b)); }
};
template <class T>
struct Mul {
  constexpr T operator()(T a, T b) const { return static_cast<T>(Wrap(a) * Wrap(b)); }
};
template <class T>
struct RealDiv {
  constexpr T operator()(T a, T b) const { return a / b; }
};
template <class T>
struct SquaredDifference {
  constexpr T operator()(T a, T b) const {
    const T d = Sub<T>()(a, b);
    return Mul<T>()(d, d);
  }
};
template <class T>
struct Neg {
  constexpr T operator()(T x) const { return static_cast<T>(-Wrap(x)); }
};
template <class T>
struct Square {
  constexpr T operator()(T x) const { return Mul<T>()(x, x); }
};
template <class T>
struct Scale {
  T factor;
  constexpr T operator()(T x) const { return factor * x; }
};

}  // namespace belfry::ops::functor
