// The order by which ArgMax, ArgMin and TopK choose elements. Only for .cu files.
#pragma once

#include <cstdint>

#include "framework/device/cuda/launch.h"

namespace belfry::ops {

// An element and its index along the axis; empty if the index is negative.
template <class C>
struct Candidate {
  C value;
  int64_t index;
};

// True if a precedes b: NaN first, then the larger (or smaller) value, equal values by index, empty candidates last.
template <bool max, class C>
constexpr bool ComesFirst(const Candidate<C>& a, const Candidate<C>& b) {
  if (a.index < 0 || b.index < 0) return b.index < 0;
  const bool a_nan = a.value != a.value, b_nan = b.value != b.value;
  if (a_nan != b_nan) return a_nan;
  if (a_nan || a.value == b.value) return a.index < b.index;
  return max ? a.value > b.value : a.value < b.value;
}

template <class C, bool max>
struct FirstOf {
  constexpr Candidate<C> operator()(const Candidate<C>& a, const Candidate<C>& b) const {
    return ComesFirst<max>(a, b) ? a : b;
  }
};

}  // namespace belfry::ops
