// Element-wise formulas as scalar functors, each written once for the CPU and the CUDA kernels. T is float or double
// (16-bit floats are computed in float), or an integer type, whose arithmetic wraps around.
//
// constexpr allows nvcc to compile them for the device (--expt-relaxed-constexpr). On CPUs
// registers_impl.h evaluates some of them, and Vector(x) is the same formula on an Eigen array. kCost is the
// approximate number of scalar operations per call, 1 if absent.
#pragma once

#include <cmath>
#include <limits>
#include <type_traits>

namespace belfry::ops::functor {

// The type in which T is added, subtracted and multiplied: unsigned for integers, whose overflow wraps.
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

// --- Exponentials and their inverses ---

template <class T>
struct Exp {
  static constexpr double kCost = 4;
  constexpr T operator()(T x) const { return std::exp(x); }
};
template <class T>
struct Expm1 {
  static constexpr double kCost = 8;
  constexpr T operator()(T x) const { return std::expm1(x); }
};
template <class T>
struct Log {
  static constexpr double kCost = 4;
  constexpr T operator()(T x) const { return std::log(x); }
};
template <class T>
struct Log1p {
  static constexpr double kCost = 8;
  constexpr T operator()(T x) const { return std::log1p(x); }
};
template <class T>
struct Tanh {
  static constexpr double kCost = 4;
  constexpr T operator()(T x) const { return std::tanh(x); }
};
template <class T>
struct Sigmoid {
  static constexpr double kCost = 4;
  constexpr T operator()(T x) const { return T(1) / (T(1) + std::exp(-x)); }
};
template <class T>
struct TanhGrad {
  constexpr T operator()(T y, T dy) const { return dy * (T(1) - y * y); }
};
template <class T>
struct SigmoidGrad {
  constexpr T operator()(T y, T dy) const { return dy * y * (T(1) - y); }
};
// No Vector: Eigen's vectorised square root turns infinity into NaN, and a plain loop vectorises as well.
template <class T>
struct Sqrt {
  static constexpr double kCost = 2;
  constexpr T operator()(T x) const { return std::sqrt(x); }
};
template <class T>
struct Rsqrt {
  static constexpr double kCost = 3;
  constexpr T operator()(T x) const { return T(1) / std::sqrt(x); }
};
template <class T>
struct Reciprocal {
  constexpr T operator()(T x) const { return T(1) / x; }
};
template <class T>
struct Pow {
  static constexpr double kCost = 40;
  constexpr T operator()(T a, T b) const { return std::pow(a, b); }
};

// --- Angles, hyperbolic and error functions ---

template <class T>
struct Sin {
  static constexpr double kCost = 8;
  constexpr T operator()(T x) const { return std::sin(x); }
  template <class A>
  auto Vector(const A& x) const {
    return x.sin();
  }
};
template <class T>
struct Cos {
  static constexpr double kCost = 8;
  constexpr T operator()(T x) const { return std::cos(x); }
  template <class A>
  auto Vector(const A& x) const {
    return x.cos();
  }
};
template <class T>
struct Tan {
  static constexpr double kCost = 20;
  constexpr T operator()(T x) const { return std::tan(x); }
};
template <class T>
struct Asin {
  static constexpr double kCost = 20;
  constexpr T operator()(T x) const { return std::asin(x); }
};
template <class T>
struct Acos {
  static constexpr double kCost = 20;
  constexpr T operator()(T x) const { return std::acos(x); }
};
template <class T>
struct Atan {
  static constexpr double kCost = 20;
  constexpr T operator()(T x) const { return std::atan(x); }
};
template <class T>
struct Atan2 {
  static constexpr double kCost = 40;
  constexpr T operator()(T y, T x) const { return std::atan2(y, x); }
};
template <class T>
struct Sinh {
  static constexpr double kCost = 20;
  constexpr T operator()(T x) const { return std::sinh(x); }
};
template <class T>
struct Cosh {
  static constexpr double kCost = 20;
  constexpr T operator()(T x) const { return std::cosh(x); }
};
template <class T>
struct Erf {
  static constexpr double kCost = 20;
  constexpr T operator()(T x) const { return std::erf(x); }
};
template <class T>
struct Erfc {
  static constexpr double kCost = 20;
  constexpr T operator()(T x) const { return std::erfc(x); }
};

}  // namespace belfry::ops::functor
