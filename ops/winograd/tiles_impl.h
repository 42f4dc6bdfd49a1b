// How images are cut into tiles, and the way of a tile between NHWC and the transformed domain. Internal.
#pragma once

#include <algorithm>
#include <cstdint>

#include "ops/winograd/matrices.h"
#include "ops/winograd/transform_impl.h"

namespace belfry::ops::winograd {

// Outputs of a tile along an axis.
inline constexpr int kTile = 4;

constexpr int64_t RoundUp(int64_t x, int64_t multiple) { return (x + multiple - 1) / multiple * multiple; }

// Images in NHWC.
struct Images {
  int64_t n, h, w, c;

  int64_t vectors() const { return (c + kLanes - 1) / kLanes; }
  int64_t pixel(int64_t image, int64_t y, int64_t x) const { return ((image * h + y) * w + x) * c; }
};

// A square of an image.
struct Square {
  int64_t image, y, x;

  bool Inside(const Images& images, int64_t side) const {
    return y >= 0 && x >= 0 && y + side <= images.h && x + side <= images.w;
  }
};

// The tiles of images, in row-major order.
struct TileGrid {
  int64_t rows, columns;

  explicit TileGrid(const Images& images)
      : rows((images.h + kTile - 1) / kTile), columns((images.w + kTile - 1) / kTile) {}
  Square At(int64_t i) const { return {i / (rows * columns), i / columns % rows * kTile, i % columns * kTile}; }
};

// `block` tiles in the transformed domain, for each vector of channels:
//   [vector][row of points][tile][column of points][kLanes]
template <int n>
struct Layout {
  int64_t block;

  static constexpr int64_t tile = n * kLanes;            // from tile to tile
  int64_t row() const { return block * tile + kLanes; }  // from row to row of points; not a multiple of 4 KiB
  int64_t vector() const { return n * row(); }
  int64_t At(int64_t tile_index, int row_index, int column_index) const {
    return row_index * row() + tile_index * tile + column_index * kLanes;
  }
};

// Some of the vectors of channels.
struct Vectors {
  int64_t begin, end;
  int64_t size() const { return end - begin; }
};

// Copies these channels of a square of side x side pixels as floats. Where it leaves the image, and for channels from
// images.c on, there are zeros.
template <class T>
void CopySquare(const Images& images, const T* data, const Square& square, Vectors vectors, int side, float* to) {
  const int64_t channels = std::min(images.c - vectors.begin * kLanes, vectors.size() * kLanes);
  const int64_t whole = channels / kLanes * kLanes;
  for (int64_t y = square.y; y < square.y + side; ++y) {
    for (int64_t x = square.x; x < square.x + side; ++x, to += vectors.size() * kLanes) {
      if (y < 0 || y >= images.h || x < 0 || x >= images.w) {
        for (int64_t c = 0; c < channels; c += kLanes) Store(Lanes{}, to + c);
        continue;
      }
      const T* const from = data + images.pixel(square.image, y, x) + vectors.begin * kLanes;
      for (int64_t c = 0; c < whole; c += kLanes) Store(Load(from + c), to + c);
      if (whole == channels) continue;
      Store(Lanes{}, to + whole);
      for (int64_t c = whole; c < channels; ++c) to[c] = static_cast<float>(from[c]);
    }
  }
}

// Transforms these channels of the square of matrix.columns pixels a side into tile `index`, from vector 0 of the
// layout on. Where the square leaves the image there are zeros. `patch` has room for it.
template <const auto& matrix, class T>
void TransformSquare(const Images& images, const T* data, const Square& square, Vectors vectors,
                     const Layout<matrix.rows>& layout, int64_t index, float* transformed, float* patch) {
  constexpr int side = matrix.columns;
  const Steps from_steps{images.w * images.c, images.c}, to_steps{layout.row(), kLanes};
  float* to = transformed + index * layout.tile;
  if (images.c % kLanes != 0) {
    CopySquare(images, data, square, vectors, side, patch);
    const int64_t pixel = vectors.size() * kLanes;
    for (int64_t v = 0; v < vectors.size(); ++v, to += layout.vector()) {
      Transform2D<matrix, PointAxis::kRows>(patch + v * kLanes, {pixel * side, pixel}, to, to_steps);
    }
    return;
  }
  int64_t at = images.pixel(square.image, square.y, square.x) + vectors.begin * kLanes;
  if (square.Inside(images, side)) {
    for (int64_t v = 0; v < vectors.size(); ++v, at += kLanes, to += layout.vector()) {
      Transform2D<matrix, PointAxis::kRows>(data + at, from_steps, to, to_steps);
    }
    return;
  }
  const int64_t top = -square.y, bottom = images.h - square.y, left = -square.x, right = images.w - square.x;
  for (int64_t v = 0; v < vectors.size(); ++v, at += kLanes, to += layout.vector()) {
    Transform2D<matrix, PointAxis::kRows>(
        [=](int j, Lanes* column) {
          const bool inside = j >= left && j < right;
#pragma GCC unroll 8
          for (int i = 0; i < side; ++i) {
            column[i] = inside && i >= top && i < bottom
                            ? Load(data + (at + i * from_steps.row + j * from_steps.column))
                            : Lanes{};
          }
        },
        [=](int i, const Lanes* row) { StoreRow<matrix.rows>(row, to, to_steps, i); });
  }
}

}  // namespace belfry::ops::winograd
