// Sums of squares that neither overflow nor vanish, on CPUs and GPUs. The square of a float beyond 1.8e19 is infinite,
// and that of one below 1e-19 loses digits or is 0. So a kernel adds up the squares as they are, and in the rare case
// that the sum is out of range, once more those of the numbers times a power of two, which rounds nothing.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

namespace belfry::ops {

// False if squares in the sum may have overflowed, or have lost digits that count in it; also for NaN, and for 0, which
// may be the sum of squares that vanished.
template <class C>
constexpr bool SquaresInRange(C sum) {
  using Limits = std::numeric_limits<C>;
  return sum >= Limits::min() / Limits::epsilon() && sum <= Limits::max();
}

// A power of two by which to multiply numbers of absolute values up to `largest`, so that the largest is about 1: its
// square times any number of elements is finite. Finite and not subnormal, whatever `largest` is.
template <class C>
constexpr C SquareScale(C largest) {
  constexpr int kMaxShift = std::numeric_limits<C>::max_exponent - 2;
  return std::ldexp(C(1), -std::clamp(std::ilogb(largest), -kMaxShift, kMaxShift));
}

// The larger of two absolute values; `a` if b is NaN.
template <class C>
constexpr C LargerMagnitude(C a, C b) {
  const C size = std::abs(b);
  return size > a ? size : a;
}

// Views of an element: as it is, or scaled.
struct Unscaled {
  template <class C>
  constexpr C operator()(C x) const {
    return x;
  }
};
template <class C>
struct Scaled {
  C scale;
  constexpr C operator()(C x) const { return x * scale; }
};

}  // namespace belfry::ops
