// Reductions of elements, each written once for CPUs (reduce_impl.h, which explains the members) and GPUs
// (reduce_gpu_impl.h). C is the type of the computation.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "ops/elementwise/step_functors.h"

namespace belfry::ops {

// The sum times `factor`. Floats are combined in lanes of their own type, and lanes in double; integers wrap around.
template <class C>
struct SumReduction {
  using Lane = std::conditional_t<std::is_integral_v<C>, uint64_t, C>;
  using Acc = std::conditional_t<std::is_integral_v<C>, uint64_t, double>;
  double factor = 1;

  static constexpr Lane Start() { return 0; }
  static constexpr Lane Step(Lane lane, C x) { return lane + static_cast<Lane>(x); }
  static constexpr Acc Begin() { return 0; }
  static constexpr Acc Merge(Acc acc, Lane lane) { return acc + static_cast<Acc>(lane); }
  static constexpr Acc Join(Acc a, Acc b) { return a + b; }
  constexpr C Finish(Acc acc) const {
    if constexpr (std::is_integral_v<C>) {
      return static_cast<C>(acc);
    } else {
      return static_cast<C>(acc * factor);
    }
  }
};

// Half the sum of squares.
template <class C>
struct HalfSquareReduction {
  using Lane = C;
  using Acc = double;

  static constexpr C Start() { return 0; }
  static constexpr C Step(C lane, C x) { return lane + x * x; }
  static constexpr double Begin() { return 0; }
  static constexpr double Merge(double acc, C lane) { return acc + static_cast<double>(lane); }
  static constexpr double Join(double a, double b) { return a + b; }
  static constexpr C Finish(double acc) { return static_cast<C>(acc / 2); }
};

// The largest or smallest element; NaN if any element is NaN.
template <class C, bool max>
struct ExtremeReduction {
  using Lane = C;
  using Acc = C;

  static constexpr C Start() {
    using Limits = std::numeric_limits<C>;
    if constexpr (std::is_floating_point_v<C>) {
      return max ? -Limits::infinity() : Limits::infinity();
    } else {
      return max ? Limits::lowest() : Limits::max();
    }
  }
  static constexpr C Step(C lane, C x) { return max ? functor::Maximum<C>()(lane, x) : functor::Minimum<C>()(lane, x); }
  static constexpr C Begin() { return Start(); }
  static constexpr C Merge(C acc, C lane) { return Step(acc, lane); }
  static constexpr C Join(C a, C b) { return Step(a, b); }
  static constexpr C Finish(C acc) { return acc; }
};

template <class C>
using MaxReduction = ExtremeReduction<C, true>;
template <class C>
using MinReduction = ExtremeReduction<C, false>;

// The product. Floats are multiplied in double; integers wrap around.
template <class C>
struct ProductReduction {
  using Lane = std::conditional_t<std::is_integral_v<C>, uint64_t, double>;
  using Acc = Lane;

  static constexpr Lane Start() { return 1; }
  static constexpr Lane Step(Lane lane, C x) { return lane * static_cast<Lane>(x); }
  static constexpr Acc Begin() { return 1; }
  static constexpr Acc Merge(Acc acc, Lane lane) { return acc * lane; }
  static constexpr Acc Join(Acc a, Acc b) { return a * b; }
  static constexpr C Finish(Acc acc) { return static_cast<C>(acc); }
};

// A product from which any one of its factors can be left out again, as the gradient of Prod needs. Zeros, infinities
// and NaN are counted, up to 2, with their signs in the mantissa, and the exponent is separate, so that no other
// product overflows or vanishes on the way. 16 bytes, as much as teams of GPU threads reduce.
struct Factors {
  double mantissa = 1;
  int64_t exponent : 58 = 0;
  uint64_t zeros : 2 = 0, infinities : 2 = 0, nans : 2 = 0;

  static constexpr Factors Of(double x) {
    Factors one;
    if (x != x) {
      one.nans = 1;
    } else if (x == 0) {
      one.zeros = 1;
      one.mantissa = std::copysign(1.0, x);
    } else if (x - x != 0) {
      one.infinities = 1;
      one.mantissa = std::copysign(1.0, x);
    } else {
      one.mantissa = x;
      one.Normalize();
    }
    return one;
  }
  friend constexpr Factors operator*(Factors a, const Factors& b) {
    constexpr auto more = [](unsigned x, unsigned y) { return x + y < 2 ? x + y : 2; };
    a.mantissa *= b.mantissa;
    a.exponent += b.exponent;
    a.zeros = more(a.zeros, b.zeros);
    a.infinities = more(a.infinities, b.infinities);
    a.nans = more(a.nans, b.nans);
    a.Normalize();
    return a;
  }
  // The product of all factors but x, which is one of them.
  constexpr double Without(double x) const {
    const Factors own = Of(x);
    const double rest = mantissa / own.mantissa;
    const bool zero = zeros > own.zeros, infinite = infinities > own.infinities;
    if (nans > own.nans || (zero && infinite)) return std::numeric_limits<double>::quiet_NaN();
    if (zero) return std::copysign(0.0, rest);
    if (infinite) return std::copysign(std::numeric_limits<double>::infinity(), rest);
    constexpr int64_t kFar = 4096;  // beyond every double
    const int64_t shift = exponent - own.exponent;
    return std::ldexp(rest, static_cast<int>(shift < -kFar ? -kFar : shift > kFar ? kFar : shift));
  }

  // To a mantissa in [0.5, 1).
  constexpr void Normalize() {
    int by = 0;
    mantissa = std::frexp(mantissa, &by);
    exponent += by;
  }
};
struct FactorReduction {
  using Lane = Factors;
  using Acc = Factors;

  static constexpr Factors Start() { return {}; }
  static constexpr Factors Step(const Factors& lane, double x) { return lane * Factors::Of(x); }
  static constexpr Factors Begin() { return {}; }
  static constexpr Factors Merge(const Factors& a, const Factors& b) { return a * b; }
  static constexpr Factors Join(const Factors& a, const Factors& b) { return a * b; }
};

// Logical or, and logical and.
template <bool any>
struct LogicalReduction {
  using Lane = bool;
  using Acc = bool;

  static constexpr bool Start() { return !any; }
  static constexpr bool Step(bool lane, bool x) { return any ? lane || x : lane && x; }
  static constexpr bool Begin() { return Start(); }
  static constexpr bool Merge(bool acc, bool lane) { return Step(acc, lane); }
  static constexpr bool Join(bool a, bool b) { return Step(a, b); }
  static constexpr bool Finish(bool acc) { return acc; }
};
template <class C>
using AnyReduction = LogicalReduction<true>;
template <class C>
using AllReduction = LogicalReduction<false>;

}  // namespace belfry::ops
