// Scalar functors that select, round and compare; see functors.h.
#pragma once

#include <cmath>
#include <limits>
#include <type_traits>

#include "ops/elementwise/functors.h"

namespace belfry::ops::functor {

template <class T>
struct Abs {
  constexpr T operator()(T x) const {
    if constexpr (std::is_floating_point_v<T>) {
      return std::abs(x);
    } else if constexpr (std::is_unsigned_v<T>) {
      return x;
    } else {
      return x < T(0) ? Neg<T>()(x) : x;
    }
  }
};
// -1, 0 or 1; NaN stays NaN.
template <class T>
struct Sign {
  constexpr T operator()(T x) const {
    if constexpr (std::is_unsigned_v<T>) {
      return x > T(0) ? T(1) : x;
    } else {
      return x > T(0) ? T(1) : (x < T(0) ? static_cast<T>(-1) : x);
    }
  }
};
template <class T>
struct Floor {
  constexpr T operator()(T x) const { return std::floor(x); }
};
template <class T>
struct Ceil {
  constexpr T operator()(T x) const { return std::ceil(x); }
};
// Rounds to the nearest integer, ties to even (in the default rounding mode).
template <class T>
struct Round {
  constexpr T operator()(T x) const { return std::nearbyint(x); }
};
template <class T>
struct IsNan {
  constexpr bool operator()(T x) const { return x != x; }
};
template <class T>
struct IsInf {
  constexpr bool operator()(T x) const { return std::abs(x) == std::numeric_limits<T>::infinity(); }
};
template <class T>
struct IsFinite {
  constexpr bool operator()(T x) const { return std::abs(x) < std::numeric_limits<T>::infinity(); }
};

// Maximum and minimum; NaN if either operand is NaN.
template <class T>
struct Maximum {
  constexpr T operator()(T a, T b) const { return a > b || a != a ? a : b; }
};
template <class T>
struct Minimum {
  constexpr T operator()(T a, T b) const { return a < b || a != a ? a : b; }
};
template <class T>
struct Clip {
  T low, high;
  constexpr T operator()(T x) const { return x < low ? low : (x > high ? high : x); }
};
template <class T>
struct ClipGrad {
  T low, high;
  constexpr T operator()(T x, T dy) const { return x < low || x > high ? T(0) : dy; }
};

// Rounded down like Python's // and %: a == b * FloorDiv(a, b) + FloorMod(a, b), and the remainder has the sign of b.
// Floats are divided as CPython does (float_floor_div in Objects/floatobject.c): the remainder is exact, and the floor
// of a rounded quotient may be one too many. A float divided by 0 gives the quotient, infinite or NaN.
// REQUIRES for integers: b != 0.
template <class T>
struct FloorDiv {
  static constexpr double kCost = std::is_floating_point_v<T> ? 20 : 1;
  constexpr T operator()(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>) {
      if (b == T(0)) return a / b;
      const T r = std::fmod(a, b);
      T q = (a - r) / b;
      if (r != T(0) && (r < T(0)) != (b < T(0))) q -= T(1);
      if (q == T(0)) return std::copysign(T(0), a / b);
      const T whole = std::floor(q);
      return q - whole > T(0.5) ? whole + T(1) : whole;
    } else if constexpr (std::is_unsigned_v<T>) {
      return static_cast<T>(a / b);
    } else {
      if (b == static_cast<T>(-1)) return Neg<T>()(a);
      const T q = static_cast<T>(a / b);
      return a % b != 0 && (a < 0) != (b < 0) ? static_cast<T>(q - 1) : q;
    }
  }
};
template <class T>
struct FloorMod {
  constexpr T operator()(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>) {
      const T r = std::fmod(a, b);
      if (r == T(0)) return std::copysign(r, b);
      return (r < T(0)) != (b < T(0)) ? r + b : r;
    } else if constexpr (std::is_unsigned_v<T>) {
      return static_cast<T>(a % b);
    } else {
      if (b == static_cast<T>(-1)) return 0;
      const T r = static_cast<T>(a % b);
      return r != 0 && (r < 0) != (b < 0) ? static_cast<T>(r + b) : r;
    }
  }
};

template <class T>
struct Equal {
  constexpr bool operator()(T a, T b) const { return a == b; }
};
template <class T>
struct NotEqual {
  constexpr bool operator()(T a, T b) const { return a != b; }
};
template <class T>
struct Less {
  constexpr bool operator()(T a, T b) const { return a < b; }
};
template <class T>
struct LessEqual {
  constexpr bool operator()(T a, T b) const { return a <= b; }
};
template <class T>
struct Greater {
  constexpr bool operator()(T a, T b) const { return a > b; }
};
template <class T>
struct GreaterEqual {
  constexpr bool operator()(T a, T b) const { return a >= b; }
};
template <class T>
struct LogicalAnd {
  constexpr bool operator()(T a, T b) const { return a && b; }
};
template <class T>
struct LogicalOr {
  constexpr bool operator()(T a, T b) const { return a || b; }
};
template <class T>
struct LogicalXor {
  constexpr bool operator()(T a, T b) const { return a != b; }
};
template <class T>
struct LogicalNot {
  constexpr bool operator()(T x) const { return !x; }
};

}  // namespace belfry::ops::functor
