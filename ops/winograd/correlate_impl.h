// The two tile loops behind every pass of a Winograd convolution. Internal.
#pragma once

#include <cstdint>
#include <type_traits>

#include "framework/base/half.h"
#include "ops/winograd/tiles_impl.h"

namespace belfry::ops::winograd {

// Correlation of images with an r x r filter [r, r, in.c, out.c]. `in` is padded by pad_top rows and pad_left columns
// of zeros. out.c must be a multiple of kLanes for a gradient of a filter, and for a bias.
struct Problem {
  Images in, out;
  int64_t pad_top, pad_left;
  int tile;       // outputs of a tile along each axis, m
  int taps;       // r
  int threads;    // threads that divide the blocks; with 1, all threads share each block of a filter's gradient
  int64_t block;  // tiles that one thread holds in the transformed domain at a time

  TileGrid grid() const { return {out, tile}; }
  int64_t tiles() const { return out.n * grid().rows * grid().columns; }
  int64_t blocks() const { return (tiles() + block - 1) / block; }
  Square InputOf(const Square& tile) const { return {tile.image, tile.y - pad_top, tile.x - pad_left}; }
};

// The tiles of any filter and dtype.
inline constexpr int kLeastTile = 4;
// With at most this many channels of `in`, the transforms take longer than the products.
inline constexpr int kFewChannels = 4;

// Calls f.operator()<channels>() with the number of channels if it is at most kFewChannels, otherwise with 0. Larger
// tiles do not pay then, and have no code of their own.
template <int m, class F>
auto ForChannels(int64_t channels, const F& f) {
  if constexpr (m != kLeastTile) return f.template operator()<0>();
  switch (channels) {
    case 1: return f.template operator()<1>();
    case 2: return f.template operator()<2>();
    case 3: return f.template operator()<3>();
    case 4: return f.template operator()<4>();
    default: return f.template operator()<0>();
  }
}

// Calls f.operator()<m, r>() with the tile and the taps of a problem whose images are T.
template <class T, class F>
auto ForSizes(const Problem& p, const F& f) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    if (p.tile == 5) return f.template operator()<5, 3>();
    if (p.tile == 6) return f.template operator()<6, 5>();
    if (p.tile == 7) return f.template operator()<7, 3>();
    if (p.tile == 8) return f.template operator()<8, 3>();
  }
  return p.taps == 3 ? f.template operator()<kLeastTile, 3>() : f.template operator()<kLeastTile, 5>();
}

// Operations on results before they are stored: first the sums, then the ones that set elements to 0. Pointers may be
// null.
template <class T>
struct Epilogue {
  const T* bias = nullptr;    // [out.c]
  const T* addend = nullptr;  // [out]
  bool relu = false;          // sets negative results to 0; not with an addend or a mask
  const T* mask = nullptr;    // [out]; results are 0 unless the mask is above 0
};

// out = in * filter, followed by the epilogue, whose addend and mask may alias `out`. Images and the epilogue have type
// T, float or BFloat16; the filter and all arithmetic are float. TransformFilter takes a filter whose rows are filled
// up with zeros to whole vectors, and Run what it writes.
template <class T>
struct Correlation {
  static int64_t FilterFloats(const Problem& problem);
  static int64_t WorkspaceFloats(const Problem& problem);
  static void TransformFilter(const Problem& problem, const float* filter, float* transformed);
  static void Run(const Problem& problem, const T* in, const float* transformed, const Epilogue<T>& epilogue, T* out,
                  float* workspace);
};

// Gradient of the filter, given `dout`, the gradient of `out`. If dbias is not null, also the sum of dout over all
// pixels. Channels are taken in parts of in.c and out.c.
template <class T>
struct FilterGradient {
  static int64_t WorkspaceFloats(const Problem& problem);
  static void Run(const Problem& problem, const T* in, const T* dout, float* dfilter, T* dbias, float* workspace);
};

}  // namespace belfry::ops::winograd
