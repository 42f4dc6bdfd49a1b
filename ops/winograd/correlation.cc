#include <algorithm>

#include "framework/base/check.h"
#include "framework/base/parallel.h"
#include "ops/simd/product_impl.h"
#include "ops/winograd/correlate_impl.h"

namespace belfry::ops::winograd {
namespace {

// Correlation by Winograd's minimal filtering (Lavin and Gray, "Fast algorithms for convolutional neural networks",
// 2015, algorithm 1). With n = m + r - 1, each m x m tile of `out` is
//
//   y = A^T [ sum over c of (G g_c G^T) o (B^T d_c B) ] A
//
// where d_c is the n x n patch of channel c of `in`, g_c the filter and o the element-wise product. The sum over the
// channels moves inside the brackets because A is linear, so at each of the n^2 points the products of a block of tiles
// form one matrix product [tiles, in.c] x [in.c, out.c], and every tile is transformed back only once.
//
// Cost: n^2 in.c out.c multiplications per tile instead of m^2 r^2 in.c out.c, that is, with m = 4, 36 instead of 144
// for r = 3 and 64 instead of 400 for r = 5, plus transforms that grow only with in.c + out.c.
//
// The workspace holds for each thread the transformed tiles of `in` and `out`, and a patch. With few channels of `in`
// (`channels` > 0), products are formed while `out` is transformed back, so no tiles of `out` are stored.
template <int m, int r, int channels>
struct CorrelationParts {
  static constexpr int n = m + r - 1, points = n * n;
  Layout<n> in_layout, out_layout;
  // The transformed filter is [n, n, out.c / kLanes, in.c, kLanes], so that products read it in ascending order: floats
  // from one point to the next, and of all. There is a vector to spare after each point, as in Layout.
  int64_t point, filter;
  int64_t in, out, thread;

  explicit CorrelationParts(const Problem& p)
      : in_layout(channels == 0 ? Layout<n>::Of(p.block, p.in.c) : Layout<n>{p.block, kFewChannels}),
        out_layout(Layout<n>::Of(p.block, p.out.c)),
        point(p.in.c * p.out.vectors() * kLanes + kLanes),
        filter(points * point),
        in(RoundUp(in_layout.size() + kLanes, kLanes)),
        out(channels == 0 ? out_layout.size() : 0),
        thread(in + out + points * p.in.vectors() * kLanes) {}
};

// The first `lanes` of a vector; the others are 0, or are not stored.
template <class T>
inline Lanes LoadFirst(int64_t lanes, const T* x) {
  if (lanes == kLanes) return Load(x);
  T all[kLanes] = {};
  std::copy_n(x, lanes, all);
  return Load(all);
}
template <class T>
inline void StoreFirst(int64_t lanes, Lanes x, T* y) {
  if (lanes == kLanes) return Store(x, y);
  T all[kLanes];
  Store(x, all);
  std::copy_n(all, lanes, y);
}

// The epilogue besides the bias.
enum class Finish { kNone, kRelu, kAddendAndMask };

// Computes one tile of a vector of output channels; load(j, column) gives column j of its products. Rows and columns
// past the border of `out` are computed but not stored, so tiles need not divide the image.
template <int m, int r, Finish finish, class T, class Columns>
inline void WriteTile(const Problem& p, const Square& tile, int64_t v, const Columns& load, const Epilogue<T>& epilogue,
                      T* out) {
  const int64_t height = std::min<int64_t>(m, p.out.h - tile.y), width = std::min<int64_t>(m, p.out.w - tile.x);
  const int64_t first = p.out.pixel(tile.image, tile.y, tile.x) + v * kLanes;
  const T *const addend = epilogue.addend, *const mask = epilogue.mask;
  const int64_t row = p.out.w * p.out.c, lanes = std::min<int64_t>(kLanes, p.out.c - v * kLanes);
  const Lanes start = epilogue.bias == nullptr ? Lanes{} : Load(epilogue.bias + v * kLanes);
  Transform2D<kOutputMatrix<m, r>, PointAxis::kColumns>(load, [=, &p](int i, const Lanes* products_of_row) {
    if (i >= height) return;
#pragma GCC unroll 4
    for (int j = 0; j < m; ++j) {
      if (j >= width) break;
      const int64_t at = first + i * row + j * p.out.c;
      Lanes x = products_of_row[j] + start;
      if constexpr (finish == Finish::kRelu) x = x < 0 ? Lanes{} : x;
      if constexpr (finish == Finish::kAddendAndMask) {
        if (addend != nullptr) x += LoadFirst(lanes, addend + at);
        if (mask != nullptr) x = LoadFirst(lanes, mask + at) > 0 ? x : Lanes{};
      }
      StoreFirst(lanes, x, out + at);
    }
  });
}

// The matrix product at point (i, j).
template <int m, int r>
void MultiplyAt(int i, int j, const Problem& p, int64_t count, const CorrelationParts<m, r, 0>& parts, const float* ins,
                const float* filter, float* outs) {
  ins += parts.in_layout.At(0, i, j);
  filter += (i * CorrelationParts<m, r, 0>::n + j) * parts.point;
  outs += parts.out_layout.At(0, i, j);
  for (int64_t c = 0; c < p.in.c; c += simd::kProductDepth) {
    const simd::Product product{.m = count,
                                .k = std::min(simd::kProductDepth, p.in.c - c),
                                .vectors = p.out.vectors(),
                                .a_row = parts.in_layout.tile(),
                                .b_row = kLanes,
                                .b_vector = p.in.c * kLanes,
                                .c_row = parts.out_layout.tile(),
                                .c_vector = kLanes};
    c == 0 ? simd::Multiply(product, ins, filter, outs)
           : simd::MultiplyAndAdd(product, ins + c, filter + c * kLanes, outs);
  }
}

// Computes `count` tiles from tile `first` on: n^2 matrix products, then the transforms back.
template <int m, int r, Finish finish, class T>
void WriteTiles(const Problem& p, int64_t first, int64_t count, const CorrelationParts<m, r, 0>& parts,
                const float* ins, const float* filter, float* outs, const Epilogue<T>& epilogue, T* out) {
  constexpr int n = CorrelationParts<m, r, 0>::n;
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j < n; ++j) MultiplyAt(i, j, p, count, parts, ins, filter, outs);
  }
  const TileGrid grid = p.grid();
  const Steps steps{parts.out_layout.row(), parts.out_layout.column};
  for (int64_t t = 0; t < count; ++t) {
    const Square tile = grid.At(first + t);
    for (int64_t v = 0; v < p.out.vectors(); ++v) {
      const float* const products = outs + v * kLanes + parts.out_layout.At(t, 0, 0);
      const auto load = [=](int j, Lanes* column) { LoadColumn<n>(products, steps, j, column); };
      WriteTile<m, r, finish>(p, tile, v, load, epilogue, out);
    }
  }
}

// Distance in tiles between the one being written and the one being prefetched.
constexpr int64_t kAhead = 2;

// The same for few channels of `in`. Each column of products is formed in registers when the output transform needs it,
// which spares writing and re-reading n^2 vectors per tile.
template <int m, int r, Finish finish, class T, int channels>
void WriteTiles(const Problem& p, int64_t first, int64_t count, const CorrelationParts<m, r, channels>& parts,
                const float* ins, const float* filter, float*, const Epilogue<T>& epilogue, T* out) {
  constexpr int n = CorrelationParts<m, r, channels>::n;
  const TileGrid grid = p.grid();
  const int64_t row = parts.in_layout.row(), point = parts.point;
  for (int64_t v = 0; v < p.out.vectors(); ++v) {
    for (int64_t t = 0; t < count; ++t) {
      if (t + kAhead < count) Prefetch<m, true>(p.out, out, grid.At(first + t + kAhead), v);
      const float *const tile = ins + parts.in_layout.At(t, 0, 0), *const factors = filter + v * channels * kLanes;
      const auto load = [=](int j, Lanes* column) {
#pragma GCC unroll 16
        for (int i = 0; i < n; ++i) {
          const float* const x = tile + i * row + j * kFewChannels;
          const float* const f = factors + (i * n + j) * point;
          column[i] = x[0] * Load(f);
#pragma GCC unroll 4
          for (int c = 1; c < channels; ++c) column[i] += x[c] * Load(f + c * kLanes);
        }
      };
      WriteTile<m, r, finish>(p, grid.At(first + t), v, load, epilogue, out);
    }
  }
}

// Computes blocks [begin, end) of `p.block` tiles each. Blocks partition the tiles of `out`, so threads write disjoint
// pixels and need no synchronisation.
template <int m, int r, int channels, Finish finish, class T>
void RunBlocks(const Problem& p, int64_t begin, int64_t end, const T* in, const float* filter,
               const Epilogue<T>& epilogue, T* out, float* scratch) {
  const CorrelationParts<m, r, channels> parts(p);
  float* const ins = scratch;
  float* const outs = ins + parts.in;
  float* const patch = outs + parts.out;
  const TileGrid grid = p.grid();
  const int64_t tiles = p.tiles();
  for (int64_t first = begin * p.block; first < std::min(end * p.block, tiles); first += p.block) {
    const int64_t count = std::min(p.block, tiles - first);
    for (int64_t t = 0; t < count; ++t) {
      TransformSquare<kDataMatrix<m, r>>(p.in, in, p.InputOf(grid.At(first + t)), parts.in_layout, t, ins, patch);
    }
    WriteTiles<m, r, finish>(p, first, count, parts, ins, filter, outs, epilogue, out);
  }
}

// The filter's rows are whole vectors.
template <int m, int r>
void TransformFilterOf(const Problem& p, const float* filter, float* transformed) {
  constexpr int n = m + r - 1;
  const int64_t in = p.in.c, out = p.out.vectors() * kLanes, point = CorrelationParts<m, r, 0>(p).point;
  ParallelFor(in * out / kLanes, kLanes * n * n, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const float* const taps = filter + i % in * out + i / in * kLanes;
      Transform2D<kFilterMatrix<m, r>, PointAxis::kRows>(taps, {r * in * out, in * out}, transformed + i * kLanes,
                                                         {n * point, point});
    }
  });
}

template <int m, int r, class T>
void RunOf(const Problem& p, const T* in, const float* transformed, const Epilogue<T>& epilogue, T* out,
           float* workspace) {
  ForChannels<m>(p.in.c, [&]<int channels>() {
    const CorrelationParts<m, r, channels> parts(p);
    const double multiplications =
        static_cast<double>(p.tiles() * parts.points) * static_cast<double>(p.in.c * p.out.c);
    const auto run_blocks = epilogue.addend != nullptr || epilogue.mask != nullptr
                                ? &RunBlocks<m, r, channels, Finish::kAddendAndMask, T>
                            : epilogue.relu ? &RunBlocks<m, r, channels, Finish::kRelu, T>
                                            : &RunBlocks<m, r, channels, Finish::kNone, T>;
    ParallelFor(p.threads, multiplications / p.threads, [&](int64_t first, int64_t last) {
      for (int64_t thread = first; thread < last; ++thread) {
        const int64_t begin = p.blocks() * thread / p.threads, end = p.blocks() * (thread + 1) / p.threads;
        run_blocks(p, begin, end, in, transformed, epilogue, out, workspace + thread * parts.thread);
      }
    });
  });
}

}  // namespace

template <class T>
int64_t Correlation<T>::FilterFloats(const Problem& p) {
  return ForSizes<T>(p, [&]<int m, int r>() { return CorrelationParts<m, r, 0>(p).filter; });
}

template <class T>
int64_t Correlation<T>::WorkspaceFloats(const Problem& p) {
  return ForSizes<T>(p, [&]<int m, int r>() {
    return ForChannels<m>(p.in.c,
                          [&]<int channels>() { return p.threads * CorrelationParts<m, r, channels>(p).thread; });
  });
}

template <class T>
void Correlation<T>::TransformFilter(const Problem& p, const float* filter, float* transformed) {
  ForSizes<T>(p, [&]<int m, int r>() { TransformFilterOf<m, r>(p, filter, transformed); });
}

template <class T>
void Correlation<T>::Run(const Problem& p, const T* in, const float* transformed, const Epilogue<T>& epilogue, T* out,
                         float* workspace) {
  BELFRY_CHECK(!epilogue.relu || (epilogue.addend == nullptr && epilogue.mask == nullptr));
  ForSizes<T>(p, [&]<int m, int r>() { RunOf<m, r>(p, in, transformed, epilogue, out, workspace); });
}

template struct Correlation<float>;
template struct Correlation<BFloat16>;

}  // namespace belfry::ops::winograd
