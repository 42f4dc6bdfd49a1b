#include <algorithm>

#include "framework/base/parallel.h"
#include "ops/winograd/correlate_impl.h"
#include "ops/winograd/products.h"

namespace belfry::ops::winograd {
namespace {

// The filter's r x r elements are the outputs here, and a tile of dout is the filter, so the points are those of the
// correlation. The workspace: for each thread its transformed tiles of `in` and `dout`, the sums of their products
// [n, n, in.c, out.c], those of dout [out.c], and a patch.
template <int r>
struct FilterGradientParts {
  static constexpr int n = kTile + r - 1, points = n * n;
  Layout<n> layout;
  int64_t point, in, out, sums, patch, thread;

  explicit FilterGradientParts(const Problem& p)
      : layout{p.block},
        point(p.in.c * p.out.c + kLanes),
        in(p.in.vectors() * layout.vector()),
        out(p.group() * layout.vector()),
        sums(points * point + p.out.c),
        patch(points * std::max(p.in.vectors(), p.out.vectors()) * kLanes),
        thread(in + out + sums + patch) {}
};

// Adds those of `count` transformed tiles at the point (1, 1), where a tile's value is the sum of its pixels, scaled.
template <int r>
void AddTiles(const FilterGradientParts<r>& parts, Vectors vectors, int64_t count, const float* outs, float* sums) {
  const float* from = outs + parts.layout.At(0, 1, 1);
  for (int64_t v = vectors.begin; v < vectors.end; ++v, from += parts.layout.vector()) {
    Lanes sum = Load(sums + v * kLanes);
    for (int64_t t = 0; t < count; ++t) sum += Load(from + t * parts.layout.tile);
    Store(sum, sums + v * kLanes);
  }
}

// The products of a block of tiles at all points.
template <int r>
void AddProducts(const Problem& p, const FilterGradientParts<r>& parts, Product product, const float* ins,
                 const float* outs, float* sums) {
  constexpr int n = FilterGradientParts<r>::n;
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j < n; ++j, sums += parts.point) {
      const int64_t at = parts.layout.At(0, i, j);
      for (int64_t v = 0; v < p.in.vectors(); ++v) {
        product.m = std::min<int64_t>(kLanes, p.in.c - v * kLanes);
        MultiplyAndAdd(product, ins + v * parts.layout.vector() + at, outs + at, sums + v * kLanes * p.out.c);
      }
    }
  }
}

template <int r, class T>
void RunBlocks(const Problem& p, int64_t begin, int64_t end, const T* in, const T* dout, bool bias, float* scratch) {
  const FilterGradientParts<r> parts(p);
  float* const ins = scratch;
  float* const outs = ins + parts.in;
  float* const sums = outs + parts.out;
  float* const patch = sums + parts.sums;
  const TileGrid grid(p.out);
  const int64_t tiles = p.tiles();
  Product product{.vectors = 0,
                  .a_row = 1,
                  .a_run = p.block,
                  .a_jump = 0,
                  .a_step = parts.layout.tile,
                  .b_row = parts.layout.tile,
                  .b_vector = parts.layout.vector(),
                  .c_row = p.out.c,
                  .c_vector = kLanes};
  std::fill_n(sums, parts.sums, 0.0f);
  for (int64_t first = begin * p.block; first < std::min(end * p.block, tiles); first += p.block) {
    product.k = std::min(p.block, tiles - first);
    for (int64_t t = 0; t < product.k; ++t) {
      const Square tile = grid.At(first + t);
      TransformSquare<kDataMatrix<r, kTile>>(p.in, in, p.InputOf(tile), {0, p.in.vectors()}, parts.layout, t, ins,
                                             patch);
    }
    for (int64_t v = 0; v < p.out.vectors(); v += p.group()) {
      const Vectors vectors = p.Group(v);
      for (int64_t t = 0; t < product.k; ++t) {
        TransformSquare<kFilterMatrix<r, kTile>>(p.out, dout, grid.At(first + t), vectors, parts.layout, t, outs,
                                                 patch);
      }
      product.vectors = vectors.end - vectors.begin;
      if (bias) AddTiles(parts, vectors, product.k, outs, sums + FilterGradientParts<r>::points * parts.point);
      AddProducts(p, parts, product, ins, outs, sums + v * kLanes);
    }
  }
}

// Adds the other threads' sums to those of the first.
template <int r>
void AddThreads(const Problem& p, const FilterGradientParts<r>& parts, float* sums) {
  ParallelFor(parts.sums / kLanes, static_cast<double>(kLanes * (p.threads - 1)), [&](int64_t begin, int64_t end) {
    for (int thread = 1; thread < p.threads; ++thread) {
      for (int64_t i = begin * kLanes; i < end * kLanes; i += kLanes) {
        Store(Load(sums + i) + Load(sums + thread * parts.thread + i), sums + i);
      }
    }
  });
}

}  // namespace

template <int r, class T>
int64_t FilterGradient<r, T>::WorkspaceFloats(const Problem& problem) {
  return problem.threads * FilterGradientParts<r>(problem).thread;
}

template <int r, class T>
void FilterGradient<r, T>::Run(const Problem& p, const T* in, const T* dout, float* dfilter, T* dbias,
                               float* workspace) {
  constexpr int n = FilterGradientParts<r>::n;
  const FilterGradientParts<r> parts(p);
  const double multiplications =
      static_cast<double>(p.tiles() * FilterGradientParts<r>::points) * static_cast<double>(p.in.c * p.out.c);
  ParallelFor(p.threads, multiplications / p.threads, [&](int64_t first, int64_t last) {
    for (int64_t thread = first; thread < last; ++thread) {
      RunBlocks<r, T>(p, p.blocks() * thread / p.threads, p.blocks() * (thread + 1) / p.threads, in, dout,
                      dbias != nullptr, workspace + thread * parts.thread);
    }
  });
  float* const sums = workspace + parts.in + parts.out;
  AddThreads(p, parts, sums);
  const int64_t size = p.in.c * p.out.c;
  ParallelFor(size / kLanes, kLanes * n * n, [&](int64_t begin, int64_t end) {
    for (int64_t at = begin * kLanes; at < end * kLanes; at += kLanes) {
      Transform2D<kOutputMatrix<r, kTile>, PointAxis::kColumns>(sums + at, {n * parts.point, parts.point}, dfilter + at,
                                                                {r * size, size});
    }
  });
  constexpr float scale = kFilterMatrix<r, kTile>.at[1][0];
  const float* const pixel_sums = sums + FilterGradientParts<r>::points * parts.point;
  for (int64_t k = 0; dbias != nullptr && k < p.out.c; ++k) dbias[k] = static_cast<T>(pixel_sums[k] / (scale * scale));
}

template struct FilterGradient<3, float>;
template struct FilterGradient<5, float>;
template struct FilterGradient<3, BFloat16>;
template struct FilterGradient<5, BFloat16>;

}  // namespace belfry::ops::winograd
