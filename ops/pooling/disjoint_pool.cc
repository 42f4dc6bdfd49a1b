#include "ops/pooling/disjoint_pool_impl.h"

#include <algorithm>
#include <bit>
#include <type_traits>

#include "framework/base/half.h"
#include "framework/base/parallel.h"
#include "ops/common/compute_impl.h"

namespace belfry::ops {
namespace {

using onednn::Pool2DShape;

constexpr int64_t kChannels = 64;  // at a time, in the first-level cache

// The part of an axis that a window covers: elements [begin, end) of the window, whose first is at `origin`.
struct Covered {
  int64_t origin, begin, end;
};
Covered CoveredBy(int64_t at, int64_t window, int64_t pad, int64_t extent) {
  const int64_t origin = at * window - pad;
  return {origin, std::max<int64_t>(0, -origin), std::min(window, extent - origin)};
}

// Calls body(h, w, offset in y of the window) for all windows of image n.
template <class Body>
void ForEachWindowOf(const Pool2DShape& p, int64_t n, const Body& body) {
  const int64_t rows = p.out_h(), columns = p.out_w();
  for (int64_t oh = 0; oh < rows; ++oh) {
    const Covered h = CoveredBy(oh, p.r, p.pad_top, p.h);
    for (int64_t ow = 0; ow < columns; ++ow) {
      body(h, CoveredBy(ow, p.s, p.pad_left, p.w), ((n * rows + oh) * columns + ow) * p.c);
    }
  }
}

// The loops have no branches, so that the compiler makes vectors of them.
template <class T>
void MaxOf(const Pool2DShape& p, const T* image, const Covered& h, const Covered& w, int64_t first, int64_t size, T* y,
           uint8_t* winners) {
  alignas(64) float best[kChannels], converted[kChannels];
  alignas(64) int32_t winner[kChannels];
  bool none = true;
  for (int64_t r = h.begin; r < h.end; ++r) {
    for (int64_t s = w.begin; s < w.end; ++s) {
      const T* const from = image + ((h.origin + r) * p.w + w.origin + s) * p.c + first;
      const auto tap = static_cast<int32_t>(r * p.s + s);
      if (none) {
        Load(from, size, best);
        std::fill_n(winner, size, tap);
        none = false;
        continue;
      }
      const float* const values = Widened(from, converted, size);
      for (int64_t c = 0; c < size; ++c) {
        const float here = values[c], before = best[c];
        const bool larger = (here > before) | ((before != before) & (here == here));
        best[c] = larger ? here : before;
        winner[c] = larger ? tap : winner[c];
      }
    }
  }
  Store(best, size, y);
  for (int64_t c = 0; c < size; ++c) winners[c] = static_cast<uint8_t>(winner[c]);
}

template <class T>
using BitsOf = std::conditional_t<kIsSixteenBit<T>, uint16_t, uint32_t>;

// The window's gradient at its winners, and 0 elsewhere. Values are chosen by their bits and compared with winners of
// their own size, without which the compiler makes no vectors.
template <class T>
void GradOf(const Pool2DShape& p, const Covered& h, const Covered& w, int64_t first, int64_t size, const T* dy,
            const uint8_t* winners, T* image) {
  alignas(64) BitsOf<T> values[kChannels], winner[kChannels];
  for (int64_t c = 0; c < size; ++c) {
    values[c] = std::bit_cast<BitsOf<T>>(dy[c]);
    winner[c] = winners[c];
  }
  for (int64_t r = h.begin; r < h.end; ++r) {
    for (int64_t s = w.begin; s < w.end; ++s) {
      T* const to = image + ((h.origin + r) * p.w + w.origin + s) * p.c + first;
      const auto tap = static_cast<BitsOf<T>>(r * p.s + s);
      for (int64_t c = 0; c < size; ++c) {
        to[c] = std::bit_cast<T>(static_cast<BitsOf<T>>(winner[c] == tap ? values[c] : 0));
      }
    }
  }
}

// Zeros for what lies behind the last window of an image.
template <class T>
void ClearUncovered(const Pool2DShape& p, T* image) {
  const int64_t rows = std::min(p.h, p.out_h() * p.r - p.pad_top),
                columns = std::min(p.w, p.out_w() * p.s - p.pad_left);
  for (int64_t h = 0; h < rows; ++h) std::fill_n(image + (h * p.w + columns) * p.c, (p.w - columns) * p.c, T(0));
  std::fill_n(image + rows * p.w * p.c, (p.h - rows) * p.w * p.c, T(0));
}

double CostOfImage(const Pool2DShape& p) { return static_cast<double>(p.h * p.w * p.c); }

}  // namespace

bool IsDisjoint(const Pool2DShape& pool) {
  return pool.stride_h == pool.r && pool.stride_w == pool.s && pool.r * pool.s <= 255;
}

template <class T>
void DisjointMaxPool(const Pool2DShape& pool, const T* x, T* y, uint8_t* winners) {
  ParallelFor(pool.n, CostOfImage(pool), [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      const T* const image = x + n * pool.h * pool.w * pool.c;
      ForEachWindowOf(pool, n, [&](const Covered& h, const Covered& w, int64_t to) {
        for (int64_t c = 0; c < pool.c; c += kChannels) {
          MaxOf(pool, image, h, w, c, std::min(kChannels, pool.c - c), y + to + c, winners + to + c);
        }
      });
    }
  });
}

template <class T>
void DisjointMaxPoolGrad(const Pool2DShape& pool, const uint8_t* winners, const T* dy, T* dx) {
  ParallelFor(pool.n, CostOfImage(pool), [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      T* const image = dx + n * pool.h * pool.w * pool.c;
      ForEachWindowOf(pool, n, [&](const Covered& h, const Covered& w, int64_t from) {
        for (int64_t c = 0; c < pool.c; c += kChannels) {
          GradOf(pool, h, w, c, std::min(kChannels, pool.c - c), dy + from + c, winners + from + c, image);
        }
      });
      ClearUncovered(pool, image);
    }
  });
}

template void DisjointMaxPool(const Pool2DShape&, const float*, float*, uint8_t*);
template void DisjointMaxPool(const Pool2DShape&, const BFloat16*, BFloat16*, uint8_t*);
template void DisjointMaxPoolGrad(const Pool2DShape&, const uint8_t*, const float*, float*);
template void DisjointMaxPoolGrad(const Pool2DShape&, const uint8_t*, const BFloat16*, BFloat16*);

}  // namespace belfry::ops
