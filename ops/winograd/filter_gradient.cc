#include <algorithm>

#include "framework/base/parallel.h"
#include "ops/simd/product_impl.h"
#include "ops/winograd/correlate_impl.h"

namespace belfry::ops::winograd {
namespace {

// Gradient of the filter by Winograd's minimal filtering F(r, m) (Lavin and Gray, "Fast algorithms for
// convolutional neural networks", 2015), where the r x r elements of the filter are the outputs, and a tile of dout is
// the filter. Since r + m - 1 = n as in the correlation, the points are the same. For each pair of channels
//
//   dg = A^T [ sum over tiles of (G dy G^T) o (B^T d B) ] A
//
// where d is the n x n patch of `in` that the tile dy of dout was computed from. The sum over tiles stays inside the
// brackets because A is linear: products accumulate at the n^2 points, and are transformed back once, however many
// tiles there are. The zeros that pad patches and tiles at the border add nothing.
//
// Cost: n^2 in.c out.c multiplications per tile instead of m^2 r^2 in.c out.c, and n^2 in.c out.c floats of sums for
// each of problem.threads. If these were too many for the caches, the channels are divided, and tiles transformed again
// for each pair of parts.
//
// The workspace holds for each thread its transformed tiles of `in` and `dout`, the sums of their products [n, n, in.c,
// out.c], the sums of dout [out.c] and a patch. With few channels of `in` (`channels` > 0), tiles of dout are
// transformed when their products are formed, and not stored. If problem.threads is 1, all threads share each block:
// first its tiles, then its points.
template <int m, int r, int channels>
struct FilterGradientParts {
  static constexpr int n = m + r - 1, points = n * n;
  Layout<n> in_layout, out_layout;
  int64_t point, in, out, sums, patch, thread;

  explicit FilterGradientParts(const Problem& p)
      : in_layout(channels == 0 ? Layout<n>::Of(p.block, p.in.c) : Layout<n>{p.block, kFewChannels}),
        out_layout(Layout<n>::Of(p.block, p.out.c)),
        point(p.in.c * p.out.c + kLanes),
        in(RoundUp(in_layout.size() + kLanes, kLanes)),
        out(channels == 0 ? out_layout.size() : 0),
        sums(points * point + p.out.c),
        patch(points * std::max(p.in.vectors(), p.out.vectors()) * kLanes),
        thread(in + out + sums + patch) {}

  // The sums of dout over its pixels, stored after those of the products.
  float* PixelSums(float* sums_begin) const { return sums_begin + points * point; }
};

// Adds `count` tiles of dout to its pixel sums. Point (1, 1) evaluates at x = y = 1, where all elements of G's row are
// equal, so the transformed value is the sum of the tile's pixels times a constant, which Run divides by.
template <int m, int r>
void AddTiles(const FilterGradientParts<m, r, 0>& parts, int64_t vectors, int64_t count, const float* outs,
              float* sums) {
  const float* from = outs + parts.out_layout.At(0, 1, 1);
  for (int64_t v = 0; v < vectors; ++v, from += kLanes) {
    Lanes sum = Load(sums + v * kLanes);
    for (int64_t t = 0; t < count; ++t) sum += Load(from + t * parts.out_layout.tile());
    Store(sum, sums + v * kLanes);
  }
}

// Calls body(begin, end) on ranges that cover [0, n): on all threads if they share the blocks, otherwise on this one.
template <class Body>
void ForRanges(const Problem& p, int64_t n, int64_t cost, const Body& body) {
  if (p.threads > 1) return body(0, n);
  ParallelFor(n, static_cast<double>(cost), body);
}

// Adds the products of `count` tiles from tile `first` on to the sums.
template <int m, int r, class T>
void AddProducts(const Problem& p, int64_t first, int64_t count, const FilterGradientParts<m, r, 0>& parts,
                 const T* dout, bool bias, const float* ins, float* outs, float* sums, float* patch) {
  constexpr int n = FilterGradientParts<m, r, 0>::n;
  const TileGrid grid = p.grid();
  ForRanges(p, count, n * n * p.out.c, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      TransformSquare<kFilterMatrix<r, m>>(p.out, dout, grid.At(first + t), parts.out_layout, t, outs, patch);
    }
  });
  if (bias) AddTiles(parts, p.out.vectors(), count, outs, parts.PixelSums(sums));
  ForRanges(p, n * n, count * p.in.c * p.out.c, [&](int64_t begin, int64_t end) {
    const simd::Product product{.m = p.in.c,
                                .k = count,
                                .vectors = p.out.vectors(),
                                .a_row = 1,
                                .a_step = parts.in_layout.tile(),
                                .b_row = parts.out_layout.tile(),
                                .b_vector = kLanes,
                                .c_row = p.out.c,
                                .c_vector = kLanes};
    for (int64_t point = begin; point < end; ++point) {
      const int i = static_cast<int>(point) / n, j = static_cast<int>(point) % n;
      simd::MultiplyAndAdd(product, ins + parts.in_layout.At(0, i, j), outs + parts.out_layout.At(0, i, j),
                           sums + point * parts.point);
    }
  });
}

// Number of tiles whose products are accumulated in registers between a load and a store of the sums.
constexpr int kTogether = 6;

// The same for few channels of `in`. The sums of one row of points stay in registers over kTogether tiles, so memory is
// accessed kTogether times less often.
template <int m, int r, int channels, class T>
void AddProducts(const Problem& p, int64_t first, int64_t count, const FilterGradientParts<m, r, channels>& parts,
                 const T* dout, bool bias, const float* ins, float*, float* sums, float*) {
  constexpr int n = FilterGradientParts<m, r, channels>::n;
  constexpr const auto& matrix = kFilterMatrix<r, m>;
  const TileGrid grid = p.grid();
  for (int64_t v = 0; v < p.out.vectors(); ++v) {
    float* const pixels = parts.PixelSums(sums) + v * kLanes;
    for (int64_t t = 0; t < count; t += kTogether) {
      const auto together = static_cast<int>(std::min<int64_t>(kTogether, count - t));
      Lanes half[kTogether][n][m];
      for (int k = 0; k < together; ++k) {
        if (t + k + kTogether < count) Prefetch<m, false>(p.out, dout, grid.At(first + t + k + kTogether), v);
        WithColumns<m>(p.out, dout, grid.At(first + t + k), v,
                       [&](const auto& load) { TransformColumns<matrix, PointAxis::kRows>(load, half[k]); });
        // The pixel sum at point (1, 1), as in AddTiles.
        if (bias) {
          Lanes sum = half[k][1][0];
#pragma GCC unroll 16
          for (int j = 1; j < m; ++j) sum += half[k][1][j];
          Store(Load(pixels) + matrix.at[1][0] * sum, pixels);
        }
      }
#pragma GCC unroll 1
      for (int i = 0; i < n; ++i) {
        float* const to = sums + i * n * parts.point + v * kLanes;
        const float* x = ins + parts.in_layout.At(t, i, 0);
        Lanes sum[n][channels];
#pragma GCC unroll 16
        for (int j = 0; j < n; ++j)
#pragma GCC unroll 4
          for (int c = 0; c < channels; ++c) sum[j][c] = Load(to + j * parts.point + c * p.out.c);
        for (int k = 0; k < together; ++k, x += parts.in_layout.tile()) {
          Lanes row[n];
          Transform<matrix, PointAxis::kRows>(half[k][i], row);
#pragma GCC unroll 16
          for (int j = 0; j < n; ++j)
#pragma GCC unroll 4
            for (int c = 0; c < channels; ++c) sum[j][c] += x[j * kFewChannels + c] * row[j];
        }
#pragma GCC unroll 16
        for (int j = 0; j < n; ++j)
#pragma GCC unroll 4
          for (int c = 0; c < channels; ++c) Store(sum[j][c], to + j * parts.point + c * p.out.c);
      }
    }
  }
}

// Sums blocks [begin, end) of tiles. The sums belong to one thread, and tiles are added in order.
template <int m, int r, int channels, class T>
void RunBlocks(const Problem& p, int64_t begin, int64_t end, const T* in, const T* dout, bool bias, float* scratch) {
  const FilterGradientParts<m, r, channels> parts(p);
  float* const ins = scratch;
  float* const outs = ins + parts.in;
  float* const sums = outs + parts.out;
  float* const patch = sums + parts.sums;
  const TileGrid grid = p.grid();
  const int64_t tiles = p.tiles();
  ForRanges(p, parts.sums, 1, [&](int64_t from, int64_t to) { std::fill(sums + from, sums + to, 0.0f); });
  for (int64_t first = begin * p.block; first < std::min(end * p.block, tiles); first += p.block) {
    const int64_t count = std::min(p.block, tiles - first);
    const auto transform = [&](int64_t from, int64_t to) {
      for (int64_t t = from; t < to; ++t) {
        TransformSquare<kDataMatrix<r, m>>(p.in, in, p.InputOf(grid.At(first + t)), parts.in_layout, t, ins, patch);
      }
    };
    if (p.in.c % kLanes == 0) {
      ForRanges(p, count, parts.points * p.in.c, transform);
    } else {
      transform(0, count);  // the tiles share the patch
    }
    AddProducts(p, first, count, parts, dout, bias, ins, outs, sums, patch);
  }
}

// Adds the sums of the other threads to those of the first, in thread order, so that the rounding depends only on the
// number of threads.
template <int m, int r, int channels>
void AddThreads(const Problem& p, const FilterGradientParts<m, r, channels>& parts, float* sums) {
  ParallelFor(parts.sums / kLanes, static_cast<double>(kLanes * (p.threads - 1)), [&](int64_t begin, int64_t end) {
    for (int thread = 1; thread < p.threads; ++thread) {
      for (int64_t i = begin * kLanes; i < end * kLanes; i += kLanes) {
        Store(Load(sums + i) + Load(sums + thread * parts.thread + i), sums + i);
      }
    }
  });
}

// The gradient of the filter between the channels of p.in and p.out, which may be some of those of the images.
template <int m, int r, class T>
void RunChannels(const Problem& p, const T* in, const T* dout, float* dfilter, T* dbias, float* workspace) {
  ForChannels<m>(p.in.c, [&]<int channels>() {
    const FilterGradientParts<m, r, channels> parts(p);
    constexpr int n = FilterGradientParts<m, r, channels>::n;
    const double multiplications = static_cast<double>(p.tiles() * n * n) * static_cast<double>(p.in.c * p.out.c);
    ParallelFor(p.threads, multiplications / p.threads, [&](int64_t first, int64_t last) {
      for (int64_t thread = first; thread < last; ++thread) {
        RunBlocks<m, r, channels>(p, p.blocks() * thread / p.threads, p.blocks() * (thread + 1) / p.threads, in, dout,
                                  dbias != nullptr, workspace + thread * parts.thread);
      }
    });
    float* const sums = workspace + parts.in + parts.out;
    AddThreads(p, parts, sums);
    const int64_t tap = p.in.channels * p.out.channels;
    ParallelFor(p.in.c * p.out.c / kLanes, kLanes * n * n, [&](int64_t begin, int64_t end) {
      for (int64_t at = begin * kLanes; at < end * kLanes; at += kLanes) {
        float* const to = dfilter + at / p.out.c * p.out.channels + at % p.out.c;
        Transform2D<kOutputMatrix<r, m>, PointAxis::kColumns>(sums + at, {n * parts.point, parts.point}, to,
                                                              {r * tap, tap});
      }
    });
    constexpr float scale = kFilterMatrix<r, m>.at[1][0];
    const float* const pixels = parts.PixelSums(sums);
    for (int64_t k = 0; dbias != nullptr && k < p.out.c; ++k) dbias[k] = static_cast<T>(pixels[k] / (scale * scale));
  });
}

}  // namespace

template <class T>
int64_t FilterGradient<T>::WorkspaceFloats(const Problem& p) {
  return ForSizes<T>(p, [&]<int m, int r>() {
    return ForChannels<m>(p.in.c,
                          [&]<int channels>() { return p.threads * FilterGradientParts<m, r, channels>(p).thread; });
  });
}

template <class T>
void FilterGradient<T>::Run(const Problem& p, const T* in, const T* dout, float* dfilter, T* dbias, float* workspace) {
  for (int64_t c = 0; c < p.in.channels; c += p.in.c) {
    for (int64_t k = 0; k < p.out.channels; k += p.out.c) {
      Problem part = p;
      part.in.c = std::min(p.in.c, p.in.channels - c);
      part.out.c = std::min(p.out.c, p.out.channels - k);
      T* const pixel_sums = dbias == nullptr || c > 0 ? nullptr : dbias + k;
      ForSizes<T>(p, [&]<int m, int r>() {
        RunChannels<m, r>(part, in + c, dout + k, dfilter + c * p.out.channels + k, pixel_sums, workspace);
      });
    }
  }
}

template struct FilterGradient<float>;
template struct FilterGradient<BFloat16>;

}  // namespace belfry::ops::winograd
