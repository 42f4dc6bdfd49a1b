// How images are cut into tiles, and the way of a tile between NHWC and the transformed domain. Internal.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "ops/winograd/matrices.h"
#include "ops/winograd/transform.h"

namespace belfry::ops::winograd {

// Outputs of a tile along an axis.
inline constexpr int kTile = 4;

constexpr int64_t RoundUp(int64_t x, int64_t multiple) { return (x + multiple - 1) / multiple * multiple; }

// Float32 images in NHWC.
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

// Copies a square of side x side pixels; where it leaves the image, and channels from images.c up to a whole vector,
// are zeros.
inline void CopySquare(const Images& images, const float* data, const Square& square, int side, float* to) {
  const int64_t c = images.vectors() * kLanes;
  const int64_t left = std::clamp<int64_t>(-square.x, 0, side),
                right = std::clamp<int64_t>(images.w - square.x, left, side);
  for (int64_t y = square.y; y < square.y + side; ++y, to += side * c) {
    if (y < 0 || y >= images.h || left == right) {
      std::fill_n(to, side * c, 0.0f);
      continue;
    }
    const float* from = data + images.pixel(square.image, y, square.x + left);
    std::fill_n(to, left * c, 0.0f);
    if (c == images.c) {
      std::copy_n(from, (right - left) * c, to + left * c);
    } else {
      for (int64_t x = left; x < right; ++x, from += images.c) {
        float* const pixel = to + x * c;
        Store(Lanes{}, pixel + c - kLanes);
        for (int64_t i = 0; i < images.c; ++i) pixel[i] = from[i];
      }
    }
    std::fill_n(to + right * c, (side - right) * c, 0.0f);
  }
}

// Some of the vectors of channels.
struct Vectors {
  int64_t begin, end;
};

// Transforms these channels of the square of matrix.columns pixels a side into tile `index`, from vector 0 of the
// layout on. `patch` has room for the square.
template <const auto& matrix>
void TransformSquare(const Images& images, const float* data, const Square& square, Vectors vectors,
                     const Layout<matrix.rows>& layout, int64_t index, float* transformed, float* patch) {
  const float* from = data + images.pixel(square.image, square.y, square.x);
  Steps steps{images.w * images.c, images.c};
  if (images.c % kLanes != 0 || !square.Inside(images, matrix.columns)) {
    CopySquare(images, data, square, matrix.columns, patch);
    from = patch;
    steps.column = images.vectors() * kLanes;
    steps.row = steps.column * matrix.columns;
  }
  float* to = transformed + index * layout.tile;
  for (int64_t v = vectors.begin; v < vectors.end; ++v, to += layout.vector()) {
    Transform2D<matrix, PointAxis::kRows>(from + v * kLanes, steps, to, {layout.row(), kLanes});
  }
}

}  // namespace belfry::ops::winograd
