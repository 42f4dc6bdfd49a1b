// The geometry of resizing, shared by the kernels for CPUs and GPUs. Internal.
#pragma once

#include <cstdint>

#include "framework/graph/op_def.h"

namespace belfry::ops {

// One axis of images that is resized from `in` to `out` elements. Element i of n covers [i, i + 1) / n of the axis, and
// its centre is what is interpolated. All positions are exact: they are fractions with the denominator 2 out.
struct ResizeAxis {
  int64_t in = 1, out = 1;
  bool bilinear = false;

  // The inputs of an output. `weight` is that of `high`; `low` has the rest.
  template <class C>
  struct Taps {
    int64_t low, high;
    C weight;
    // The weight of input i.
    constexpr C WeightOf(int64_t i) const { return (low == i ? C(1) - weight : C(0)) + (high == i ? weight : C(0)); }
  };
  template <class C>
  constexpr Taps<C> TapsOf(int64_t output) const {
    const int64_t unit = 2 * out, centre = (2 * output + 1) * in;
    if (!bilinear) return {centre / unit, centre / unit, C(0)};
    const int64_t at = centre > out ? centre - out : 0, low = at / unit;
    return {low, low + 1 < in ? low + 1 : low, static_cast<C>(at - low * unit) / static_cast<C>(unit)};
  }

  // The outputs [begin, end) that read input i.
  constexpr int64_t Begin(int64_t i) const { return FirstFrom(bilinear ? i - 1 : i); }
  constexpr int64_t End(int64_t i) const { return FirstFrom(i + 1); }

 private:
  // The first output whose `low` is at least i.
  constexpr int64_t FirstFrom(int64_t i) const {
    const int64_t distance = (bilinear ? 2 * i + 1 : 2 * i) * out - in;
    if (i <= 0 || distance <= 0) return 0;
    const int64_t first = (distance + 2 * in - 1) / (2 * in);
    return first < out ? first : out;
  }
};

// Images [n, h.in, w.in, c] resized to [n, h.out, w.out, c].
struct ResizeLayout {
  int64_t n = 0, c = 0;
  ResizeAxis h, w;

  // From the shapes of the images before and after, and the attribute "method".
  ResizeLayout(const Attrs& attrs, const Shape& images, const Shape& resized)
      : n(images[0]),
        c(images[3]),
        h{images[1], resized[1], Bilinear(attrs)},
        w{images[2], resized[2], Bilinear(attrs)} {}

 private:
  static bool Bilinear(const Attrs& attrs) { return attrs.String("method") == "bilinear"; }
};

}  // namespace belfry::ops
