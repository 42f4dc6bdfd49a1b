// The two loops over tiles that the passes of a convolution are made of. Internal.
#pragma once

#include <cstdint>

#include "ops/winograd/tiles_impl.h"

namespace belfry::ops::winograd {

// A correlation of images with an r x r filter [r, r, in.c, out.c]; the padding is that of `in`, before its first row
// and column. out.c is a multiple of kLanes.
struct Problem {
  Images in, out;
  int64_t pad_top, pad_left;
  int threads;    // among which the blocks are shared out
  int64_t block;  // tiles that a thread has in the transformed domain at a time

  int64_t tiles() const { return out.n * TileGrid(out).rows * TileGrid(out).columns; }
  int64_t blocks() const { return (tiles() + block - 1) / block; }
  Square InputOf(const Square& tile) const { return {tile.image, tile.y - pad_top, tile.x - pad_left}; }
};

// As many channels of `in` are few: the way into the transformed domain and out of it takes longer than the products.
inline constexpr int kFewChannels = 4;

// f.operator()<channels>(), of as many if they are few, else of 0.
template <class F>
auto ForChannels(int64_t channels, const F& f) {
  switch (channels) {
    case 1: return f.template operator()<1>();
    case 2: return f.template operator()<2>();
    case 3: return f.template operator()<3>();
    case 4: return f.template operator()<4>();
    default: return f.template operator()<0>();
  }
}

// What is done to results on their way to memory: the sums first, then what sets some to 0. Pointers may be null.
template <class T>
struct Epilogue {
  const T* bias = nullptr;    // by channel
  const T* addend = nullptr;  // like the results
  bool relu = false;          // 0 for negative results; not with an addend or a mask
  const T* mask = nullptr;    // like the results, which are 0 where this is not above 0
};

// out = in * filter, then the epilogue, whose addend and mask may be `out`. T: of the images and the epilogue, float or
// BFloat16; the filter, and all that is computed, is float.
template <int r, class T>
struct Correlation {
  static int64_t WorkspaceFloats(const Problem& problem);
  static void Run(const Problem& problem, const T* in, const float* filter, const Epilogue<T>& epilogue, T* out,
                  float* workspace);
};

// The gradient of the filter from that of `out`, and if dbias is not null the sums of dout over all pixels.
template <int r, class T>
struct FilterGradient {
  static int64_t WorkspaceFloats(const Problem& problem);
  static void Run(const Problem& problem, const T* in, const T* dout, float* dfilter, T* dbias, float* workspace);
};

}  // namespace belfry::ops::winograd
