// Blocks of attention on GPUs: tiles in shared memory. For .cu files.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "framework/device/cuda/launch.h"
#include "ops/attention/problem_impl.h"

namespace belfry::ops::attention {

// A block works on tiles of `rows` queries and as many keys, in shared memory of `matrices` tiles [rows, d], `squares`
// tiles [rows, rows] and `columns` tiles [rows]. The rows of a tile have an element more than needed, so that threads
// that read neighbouring rows use different banks.
struct Tiling {
  int64_t rows = 32;
  size_t bytes = 0;

  // The largest tiles that fit. InvalidArgument if none do.
  template <class C>
  static absl::StatusOr<Tiling> For(int64_t d, int64_t matrices, int64_t squares, int64_t columns) {
    for (Tiling tiling; tiling.rows > 0; tiling.rows /= 2) {
      const int64_t row = matrices * (d + 1) + squares * (tiling.rows + 1) + columns;
      tiling.bytes = static_cast<size_t>(tiling.rows * row) * sizeof(C);
      if (tiling.bytes <= gpu::kMaxSharedBytes) return tiling;
    }
    return absl::InvalidArgumentError(absl::StrCat("a head of width ", d, " is too large for attention on a GPU"));
  }
  int64_t Tiles(int64_t n) const { return (n + rows - 1) / rows; }
};

// Parts of shared memory in turn.
template <class C>
struct Shared {
  C* at;
  BELFRY_GPU C* Take(int64_t n) {
    C* const part = at;
    at += n;
    return part;
  }
};

// The tile [rows, d] = `count` rows of x, whose row i begins at first + i * x_row, times `factor`.
template <class T>
BELFRY_GPU void LoadTile(const gpu::Team& team, const gpu::Stored<T>* x, int64_t x_row, int64_t count, int64_t d,
                         gpu::Compute<T> factor, gpu::Compute<T>* tile) {
  for (int64_t i = team.rank; i < count * d; i += team.size) {
    tile[i / d * (d + 1) + i % d] = gpu::Widen(x[i / d * x_row + i % d]) * factor;
  }
}
template <class T>
BELFRY_GPU void StoreTile(const gpu::Team& team, const gpu::Compute<T>* tile, int64_t count, int64_t d,
                          gpu::Compute<T> factor, gpu::Stored<T>* x, int64_t x_row) {
  for (int64_t i = team.rank; i < count * d; i += team.size) {
    x[i / d * x_row + i % d] = gpu::Narrow<T>(tile[i / d * (d + 1) + i % d] * factor);
  }
}
template <class C>
BELFRY_GPU void ClearTile(const gpu::Team& team, int64_t count, int64_t d, C* tile) {
  for (int64_t i = team.rank; i < count * (d + 1); i += team.size) tile[i] = 0;
}
template <class C>
BELFRY_GPU C Dot(const C* a, const C* b, int64_t n) {
  C sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

// The score of a query, times scale, and a key; -infinity where hidden.
template <class T>
BELFRY_GPU gpu::Compute<T> Score(const Problem& p, const gpu::Stored<T>* mask, int64_t batch, int64_t head,
                                 int64_t query, int64_t key, const gpu::Compute<T>* q, const gpu::Compute<T>* k) {
  using C = gpu::Compute<T>;
  if (key >= p.VisibleTo(query)) return -std::numeric_limits<C>::infinity();
  const C score = Dot(q, k, p.d);
  return mask == nullptr ? score : score + gpu::Widen(mask[p.MaskAt(batch, head, query, key)]);
}

}  // namespace belfry::ops::attention
