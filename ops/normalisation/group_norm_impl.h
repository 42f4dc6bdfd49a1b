// Group norm of one example, for CPU kernels.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "framework/graph/kernel.h"
#include "ops/common/row_pieces_impl.h"
#include "ops/common/square_range_impl.h"

namespace belfry::ops {

// x viewed as [examples, places, channels], with `size` channels in a group.
struct NormGroups {
  int64_t examples, places, channels, groups, size;
  double epsilon;

  explicit NormGroups(const KernelSpec& spec) {
    const Shape& x = spec.inputs[0].shape;
    examples = x[0];
    places = x.elements(1, x.rank() - 1);
    channels = x[-1];
    groups = spec.attrs.Int("groups");
    size = channels / groups;
    epsilon = spec.attrs.Float("epsilon");
  }
  int64_t elements() const { return places * channels; }  // of an example

  // Replaces the values of the channels by the sums of their groups, divided by the number of elements.
  template <class C>
  void MeansOfGroups(C* of) const {
    for (int64_t g = 0; g < groups; ++g) {
      C sum = 0;
      for (int64_t c = g * size; c < (g + 1) * size; ++c) sum += of[c];
      std::fill_n(of + g * size, size, sum / static_cast<C>(places * size));
    }
  }
  // Replaces the values of the channels by the largest of their groups.
  template <class C>
  void LargestOfGroups(C* of) const {
    for (int64_t g = 0; g < groups; ++g) {
      std::fill_n(of + g * size, size, *std::max_element(of + g * size, of + (g + 1) * size));
    }
  }
};

// Calls body(first, n, x, ...) for pieces of every place, with the channels from `first` on.
template <class T, class Body>
void ForPlaces(const NormGroups& g, const T* x, const Body& body) {
  for (int64_t place = 0; place < g.places; ++place) {
    ForRowPieces(x + place * g.channels, g.channels, [&](int64_t first, int64_t n, const Compute<T>* piece) {
      body(place * g.channels + first, first, n, piece);
    });
  }
}

// The moments of each channel's group of x times `by`: mean and 1 / sqrt(variance + epsilon), [channels] each. False if
// squares are out of range. `by`: powers of two by which a channel is multiplied, [channels]; epsilon is scaled alike.
template <class T, class C = Compute<T>>
bool MomentsOfGroups(const NormGroups& g, const T* x, const C* by, C* mean, C* inverse) {
  std::fill_n(mean, g.channels, C(0));
  std::fill_n(inverse, g.channels, C(0));
  ForPlaces(g, x, [=](int64_t, int64_t first, int64_t n, const C* piece) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) mean[first + i] += piece[i] * by[first + i];
  });
  g.MeansOfGroups(mean);
  ForPlaces(g, x, [=](int64_t, int64_t first, int64_t n, const C* piece) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) {
      const C difference = piece[i] * by[first + i] - mean[first + i];
      inverse[first + i] += difference * difference;
    }
  });
  g.MeansOfGroups(inverse);
  bool in_range = true;
  for (int64_t c = 0; c < g.channels; ++c) {
    const C divisor = inverse[c] + static_cast<C>(g.epsilon) * by[c] * by[c];
    in_range = in_range && SquaresInRange(divisor);
    inverse[c] = 1 / std::sqrt(divisor);
  }
  return in_range;
}

// Chooses `by`: ones, if that leaves all squares in range.
template <class T, class C = Compute<T>>
void ScaledMomentsOfGroups(const NormGroups& g, const T* x, C* by, C* mean, C* inverse) {
  std::fill_n(by, g.channels, C(1));
  if (MomentsOfGroups(g, x, by, mean, inverse)) return;
  std::fill_n(by, g.channels, std::sqrt(static_cast<C>(g.epsilon)));
  ForPlaces(g, x, [=](int64_t, int64_t first, int64_t n, const C* piece) {
    for (int64_t i = 0; i < n; ++i) by[first + i] = LargerMagnitude(by[first + i], piece[i]);
  });
  g.LargestOfGroups(by);
  for (int64_t c = 0; c < g.channels; ++c) by[c] = SquareScale(by[c]);
  MomentsOfGroups(g, x, by, mean, inverse);
}

// y = (x by - mean) inverse scale + offset. `space` has room for 3 channels.
template <class T, class C = Compute<T>>
void NormalizeGroups(const NormGroups& g, const T* x, const C* scale, const C* offset, C* space, T* y) {
  C *mean = space, *factor = mean + g.channels, *by = factor + g.channels;
  ScaledMomentsOfGroups(g, x, by, mean, factor);
  for (int64_t c = 0; c < g.channels; ++c) factor[c] *= scale[c];
  PieceBuffer<T> results;
  ForPlaces(g, x, [&](int64_t at, int64_t first, int64_t n, const C* piece) {
    C* to = results.Target(y + at);
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) {
      to[i] = (piece[i] * by[first + i] - mean[first + i]) * factor[first + i] + offset[first + i];
    }
    results.Write(y + at, n);
  });
}

// With g = dy scale and z = x normalised: dx = (g - mean(g) - z mean(g z)) inverse, where the means are those of the
// group. Sets dscale = sum(dy z) and doffset = sum(dy), [channels] each, of this example. `space` has room for 5
// channels. dx may be x or dy.
template <class T, class C = Compute<T>>
void GroupGradients(const NormGroups& g, const T* x, const C* scale, const T* dy, C* space, T* dx, C* dscale,
                    C* doffset) {
  C *mean = space, *inverse = mean + g.channels, *g_mean = inverse + g.channels, *gz_mean = g_mean + g.channels,
    *by = gz_mean + g.channels;
  ScaledMomentsOfGroups(g, x, by, mean, inverse);
  std::fill_n(dscale, g.channels, C(0));
  std::fill_n(doffset, g.channels, C(0));
  PieceBuffer<T> slopes, results;
  ForPlaces(g, x, [&](int64_t at, int64_t first, int64_t n, const C* piece) {
    const C* slope = slopes.Read(dy + at, n);
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) {
      dscale[first + i] += slope[i] * (piece[i] * by[first + i] - mean[first + i]) * inverse[first + i];
      doffset[first + i] += slope[i];
    }
  });
  for (int64_t c = 0; c < g.channels; ++c) {
    g_mean[c] = doffset[c] * scale[c];
    gz_mean[c] = dscale[c] * scale[c];
  }
  g.MeansOfGroups(g_mean);
  g.MeansOfGroups(gz_mean);
  ForPlaces(g, x, [&](int64_t at, int64_t first, int64_t n, const C* piece) {
    const C* slope = slopes.Read(dy + at, n);
    C* to = results.Target(dx + at);
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) {
      const int64_t c = first + i;
      const C z = (piece[i] * by[c] - mean[c]) * inverse[c];
      to[i] = (slope[i] * scale[c] - g_mean[c] - z * gz_mean[c]) * (inverse[c] * by[c]);
    }
    results.Write(dx + at, n);
  });
}

}  // namespace belfry::ops
