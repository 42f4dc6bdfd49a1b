// Tiles of images, and their transforms from NHWC into the transformed domain. Internal.
#pragma once

#include <algorithm>
#include <cstdint>

#include "ops/winograd/matrices.h"
#include "ops/winograd/transform_impl.h"

namespace belfry::ops::winograd {

constexpr int64_t RoundUp(int64_t x, int64_t multiple) { return (x + multiple - 1) / multiple * multiple; }

// Dimensions of NHWC images, or of `c` consecutive channels of them.
struct Images {
  int64_t n, h, w, c;
  int64_t channels = c;  // of a pixel

  int64_t vectors() const { return (c + kLanes - 1) / kLanes; }
  int64_t pixel(int64_t image, int64_t y, int64_t x) const { return ((image * h + y) * w + x) * channels; }
};

// The position of a square within a batch of images.
struct Square {
  int64_t image, y, x;

  bool Inside(const Images& images, int64_t side) const {
    return y >= 0 && x >= 0 && y + side <= images.h && x + side <= images.w;
  }
};

// The tiles of side x side pixels of a batch of images, in row-major order.
struct TileGrid {
  int64_t side, rows, columns;

  TileGrid(const Images& images, int64_t side_of)
      : side(side_of), rows((images.h + side - 1) / side), columns((images.w + side - 1) / side) {}
  Square At(int64_t i) const { return {i / (rows * columns), i / columns % rows * side, i % columns * side}; }
};

// Layout of `block` tiles in the transformed domain:
//   [row of points][tile][column of points][channels]
// A product reads the channels of a tile at a point in ascending order, and the points of a tile are close together.
// With few channels, a store of a whole vector spills into the next point, so tiles must be written in order.
template <int n>
struct Layout {
  int64_t block, column;  // tiles, and floats of a point of a tile, some of them to spare

  // The layout for `channels` channels, in whole vectors, with a vector to spare, since distances of 4 KiB compete for
  // the same sets of a cache.
  static Layout Of(int64_t block, int64_t channels) { return {block, RoundUp(channels, kLanes) + kLanes}; }
  int64_t tile() const { return n * column; }              // between tiles
  int64_t row() const { return block * tile() + kLanes; }  // between rows of points
  int64_t size() const { return n * row(); }
  int64_t At(int64_t tile_index, int row_index, int column_index) const {
    return row_index * row() + tile_index * tile() + column_index * column;
  }
};

// Copies a square of side x side pixels as floats. Pixels outside the image and channels from images.c on are zero.
template <class T>
void CopySquare(const Images& images, const T* data, const Square& square, int side, float* to) {
  const int64_t channels = images.c, whole = channels / kLanes * kLanes;
  for (int64_t y = square.y; y < square.y + side; ++y) {
    for (int64_t x = square.x; x < square.x + side; ++x, to += images.vectors() * kLanes) {
      if (y < 0 || y >= images.h || x < 0 || x >= images.w) {
        for (int64_t c = 0; c < channels; c += kLanes) Store(Lanes{}, to + c);
        continue;
      }
      const T* const from = data + images.pixel(square.image, y, x);
      for (int64_t c = 0; c < whole; c += kLanes) Store(Load(from + c), to + c);
      if (whole == channels) continue;
      Store(Lanes{}, to + whole);
      for (int64_t c = whole; c < channels; ++c) to[c] = static_cast<float>(from[c]);
    }
  }
}

// Calls use(load), where load(j, column) gives column j of a square of side x side pixels, for vector v of the
// channels. Pixels outside the image are zero.
template <int side, class T, class Use>
inline void WithColumns(const Images& images, const T* data, const Square& square, int64_t v, const Use& use) {
  const Steps steps{images.w * images.channels, images.channels};
  const int64_t at = images.pixel(square.image, square.y, square.x) + v * kLanes;
  if (square.Inside(images, side)) {
    use([=](int j, Lanes* column) { LoadColumn<side>(data + at, steps, j, column); });
    return;
  }
  const int64_t top = -square.y, bottom = images.h - square.y, left = -square.x, right = images.w - square.x;
  use([=](int j, Lanes* column) {
    const bool inside = j >= left && j < right;
#pragma GCC unroll 16
    for (int i = 0; i < side; ++i) {
      column[i] = inside && i >= top && i < bottom ? Load(data + (at + i * steps.row + j * steps.column)) : Lanes{};
    }
  });
}

// Prefetches vector v of the channels of a tile, for writing if `write`. With few channels these loops are bound by
// memory, and their strides defeat the hardware prefetcher. Must be inlined: otherwise GCC takes it for a function
// without side effects and removes the calls.
template <int side, bool write, class T>
[[gnu::always_inline]] inline void Prefetch(const Images& images, const T* data, const Square& tile, int64_t v) {
  if (!tile.Inside(images, side)) return;
  const T* const from = data + images.pixel(tile.image, tile.y, tile.x) + v * kLanes;
#pragma GCC unroll 8
  for (int i = 0; i < side; ++i)
#pragma GCC unroll 8
    for (int j = 0; j < side; ++j) __builtin_prefetch(from + (i * images.w + j) * images.channels, write);
}

// Transforms the square of matrix.columns x matrix.columns pixels into tile `index`. Pixels outside the image are zero.
// `patch` has room for the square.
template <const auto& matrix, class T>
void TransformSquare(const Images& images, const T* data, const Square& square, const Layout<matrix.rows>& layout,
                     int64_t index, float* transformed, float* patch) {
  constexpr int side = matrix.columns;
  const Steps to_steps{layout.row(), layout.column};
  float* to = transformed + index * layout.tile();
  // With few channels, later points overwrite the surplus, so whole vectors may be read as long as they lie within the
  // images.
  const bool whole = layout.column < kLanes ? images.pixel(square.image, std::min(square.y + side, images.h) - 1,
                                                           std::min(square.x + side, images.w) - 1) +
                                                      kLanes <=
                                                  images.pixel(images.n, 0, 0)
                                            : images.c % kLanes == 0;
  if (!whole) {
    CopySquare(images, data, square, side, patch);
    const int64_t pixel = images.vectors() * kLanes;
    for (int64_t v = 0; v < images.vectors(); ++v, to += kLanes) {
      Transform2D<matrix, PointAxis::kRows>(patch + v * kLanes, {pixel * side, pixel}, to, to_steps);
    }
    return;
  }
  for (int64_t v = 0; v < images.vectors(); ++v, to += kLanes) {
    WithColumns<side>(images, data, square, v, [&](const auto& load) {
      Transform2D<matrix, PointAxis::kRows>(
          load, [=](int i, const Lanes* row) { StoreRow<matrix.rows>(row, to, to_steps, i); });
    });
  }
}

}  // namespace belfry::ops::winograd
