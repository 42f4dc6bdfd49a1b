#include <algorithm>

#include "framework/base/check.h"
#include "framework/base/parallel.h"
#include "ops/winograd/correlate_impl.h"
#include "ops/winograd/products.h"

namespace belfry::ops::winograd {
namespace {

// The workspace: the transformed filter, then each thread's transformed tiles of `in` and `out` and a patch.
template <int r>
struct CorrelationParts {
  static constexpr int n = kTile + r - 1, points = n * n;
  Layout<n> layout;
  int64_t point, filter, in, out, thread;

  explicit CorrelationParts(const Problem& p)
      : layout{p.block},
        point(p.in.c * p.out.c + kLanes),
        filter(points * point),
        in(p.in.vectors() * layout.vector()),
        out(p.group() * layout.vector()),
        thread(in + out + points * p.in.vectors() * kLanes) {}
};

// [n, n, in.c, out.c], `point` floats from point to point.
template <int r>
void TransformFilter(const Problem& p, const float* filter, float* to, int64_t point) {
  constexpr int n = CorrelationParts<r>::n;
  const int64_t in = p.in.c, out = p.out.c;
  ParallelFor(in, static_cast<double>(out * n * n), [&](int64_t begin, int64_t end) {
    for (int64_t at = begin * out; at < end * out; at += kLanes) {
      Transform2D<kFilterMatrix<kTile, r>, PointAxis::kRows>(filter + at, {r * in * out, in * out}, to + at,
                                                             {n * point, point});
    }
  });
}

// What there may be of an epilogue besides the bias.
enum class Finish { kNone, kRelu, kAddendAndMask };

// One tile of the result from its products.
template <int r, Finish finish, class T>
void WriteTile(const Problem& p, const Square& tile, Vectors vectors, const CorrelationParts<r>& parts, int64_t index,
               const float* products, const Epilogue<T>& epilogue, T* out) {
  const int64_t height = std::min<int64_t>(kTile, p.out.h - tile.y), width = std::min<int64_t>(kTile, p.out.w - tile.x);
  const int64_t begin = p.out.pixel(tile.image, tile.y, tile.x);
  const T *const bias = epilogue.bias, *const addend = epilogue.addend, *const mask = epilogue.mask;
  const int64_t row = p.out.w * p.out.c;
  products += index * parts.layout.tile;
  for (int64_t v = vectors.begin; v < vectors.end; ++v, products += parts.layout.vector()) {
    const Lanes start = bias == nullptr ? Lanes{} : Load(bias + v * kLanes);
    const int64_t first = begin + v * kLanes;
    Transform2D<kOutputMatrix<kTile, r>, PointAxis::kColumns>(
        [=, &parts](int j, Lanes* column) {
          LoadColumn<CorrelationParts<r>::n>(products, {parts.layout.row(), kLanes}, j, column);
        },
        [=, &p](int i, const Lanes* products_of_row) {
          if (i >= height) return;
#pragma GCC unroll 4
          for (int j = 0; j < kTile; ++j) {
            if (j >= width) break;
            const int64_t at = first + i * row + j * p.out.c;
            Lanes x = products_of_row[j] + start;
            if constexpr (finish == Finish::kRelu) x = x < 0 ? Lanes{} : x;
            if constexpr (finish == Finish::kAddendAndMask) {
              if (addend != nullptr) x += Load(addend + at);
              if (mask != nullptr) x = Load(mask + at) > 0 ? x : Lanes{};
            }
            Store(x, out + at);
          }
        });
  }
}

template <int r, Finish finish, class T>
void RunBlocks(const Problem& p, int64_t begin, int64_t end, const T* in, const float* filter,
               const Epilogue<T>& epilogue, T* out, float* scratch) {
  constexpr int n = CorrelationParts<r>::n;
  const CorrelationParts<r> parts(p);
  float* const ins = scratch;
  float* const outs = ins + parts.in;
  float* const patch = outs + parts.out;
  const TileGrid grid(p.out);
  const int64_t tiles = p.tiles();
  Product product{.k = p.in.c,
                  .vectors = 0,
                  .a_row = parts.layout.tile,
                  .a_run = kLanes,
                  .a_jump = parts.layout.vector(),
                  .a_step = 1,
                  .b_row = p.out.c,
                  .b_vector = kLanes,
                  .c_row = parts.layout.tile,
                  .c_vector = parts.layout.vector()};
  for (int64_t first = begin * p.block; first < std::min(end * p.block, tiles); first += p.block) {
    product.m = std::min(p.block, tiles - first);
    for (int64_t t = 0; t < product.m; ++t) {
      TransformSquare<kDataMatrix<kTile, r>>(p.in, in, p.InputOf(grid.At(first + t)), {0, p.in.vectors()}, parts.layout,
                                             t, ins, patch);
    }
    for (int64_t v = 0; v < p.out.vectors(); v += p.group()) {
      const Vectors vectors = p.Group(v);
      product.vectors = vectors.end - vectors.begin;
      for (int i = 0; i < n; ++i) {
        for (int j = 0; j < n; ++j) {
          const int64_t at = parts.layout.At(0, i, j);
          Multiply(product, ins + at, filter + (i * n + j) * parts.point + v * kLanes, outs + at);
        }
      }
      for (int64_t t = 0; t < product.m; ++t) {
        WriteTile<r, finish, T>(p, grid.At(first + t), vectors, parts, t, outs, epilogue, out);
      }
    }
  }
}

}  // namespace

template <int r, class T>
int64_t Correlation<r, T>::WorkspaceFloats(const Problem& problem) {
  const CorrelationParts<r> parts(problem);
  return parts.filter + problem.threads * parts.thread;
}

template <int r, class T>
void Correlation<r, T>::Run(const Problem& p, const T* in, const float* filter, const Epilogue<T>& epilogue, T* out,
                            float* workspace) {
  const CorrelationParts<r> parts(p);
  TransformFilter<r>(p, filter, workspace, parts.point);
  float* const scratch = workspace + parts.filter;
  const double multiplications =
      static_cast<double>(p.tiles() * CorrelationParts<r>::points) * static_cast<double>(p.in.c * p.out.c);
  BELFRY_CHECK(!epilogue.relu || (epilogue.addend == nullptr && epilogue.mask == nullptr));
  const auto run_blocks = epilogue.addend != nullptr || epilogue.mask != nullptr
                              ? &RunBlocks<r, Finish::kAddendAndMask, T>
                          : epilogue.relu ? &RunBlocks<r, Finish::kRelu, T>
                                          : &RunBlocks<r, Finish::kNone, T>;
  ParallelFor(p.threads, multiplications / p.threads, [&](int64_t first, int64_t last) {
    for (int64_t thread = first; thread < last; ++thread) {
      const int64_t begin = p.blocks() * thread / p.threads, end = p.blocks() * (thread + 1) / p.threads;
      run_blocks(p, begin, end, in, workspace, epilogue, out, scratch + thread * parts.thread);
    }
  });
}

template struct Correlation<3, float>;
template struct Correlation<5, float>;
template struct Correlation<3, BFloat16>;
template struct Correlation<5, BFloat16>;

}  // namespace belfry::ops::winograd
