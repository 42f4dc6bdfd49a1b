// Blocks of attention on GPUs: tiles of scores in registers. For .cu files.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "framework/device/cuda/warp_tiles.h"
#include "ops/attention/problem_impl.h"

namespace belfry::ops::attention {

// A kernel's tiles. A block has kOwnRows rows of its own, queries or keys, and takes the `others`, keys or queries, as
// many at a time. Two matrices [others, width] lie in shared memory. If `resident`, a head is no wider than `width`,
// the block's rows stay in registers, and others are read ahead. Else a block has one part of the result's columns,
// `width` wide, and scores are summed by as many columns at a time.
template <class T_, int width_, int others_, bool resident_, bool tensor_cores_>
struct Tiling {
  using T = T_;
  using S = gpu::Stored<T>;
  using C = gpu::Compute<T>;
  static constexpr int width = width_, others = others_;
  static constexpr bool resident = resident_, tensor_cores = tensor_cores_;
  using Own = gpu::OwnRows<T, width, tensor_cores>;
  using Scores = gpu::Tile<C, others>;
  using Sums = gpu::Tile<C, width>;
  static constexpr int kMatrix = others * gpu::kPitch<T, width>;
  static constexpr size_t kWarpBytes = Own::kBytes + gpu::kProductBytes<T, others, tensor_cores>;
  static constexpr size_t kBytes = 2 * kMatrix * sizeof(S) + gpu::kTileWarps * kWarpBytes;
  static_assert(kBytes <= gpu::kMaxSharedBytes);

  static constexpr int64_t Parts(int64_t d) { return resident ? 1 : (d + width - 1) / width; }
};
inline constexpr int kOwnRows = gpu::kTileWarps * gpu::kTileRows;

// Calls body(Tiling{}) with one that suits heads of width d. `two_sums`: for a kernel with two sums in registers.
// `tf32`: float32 may be rounded to TF32.
template <class T, bool two_sums, class Body>
auto WithTiling(int64_t d, bool tf32, const Body& body) {
  if constexpr (gpu::kIsSixteenBit<T>) {
    constexpr int kOthers = two_sums ? 32 : 64, kPart = two_sums ? 96 : 128;
    if (d <= 32) return body(Tiling<T, 32, 64, true, true>{});
    if (d <= 64) return body(Tiling<T, 64, kOthers, true, true>{});
    if (d <= 96) return body(Tiling<T, 96, kOthers, true, true>{});
    if (d <= 128) return body(Tiling<T, 128, 32, true, true>{});
    return body(Tiling<T, kPart, 32, false, true>{});
  } else if constexpr (std::is_same_v<T, float>) {
    if (tf32) {
      if (d <= 64) return body(Tiling<T, 64, 32, true, true>{});
      if constexpr (two_sums) {
        return body(Tiling<T, 64, 32, false, true>{});
      } else {
        if (d <= 128) return body(Tiling<T, 128, 32, true, true>{});
        return body(Tiling<T, 128, 32, false, true>{});
      }
    }
    if (d <= 32) return body(Tiling<T, 32, 32, false, false>{});
    return body(Tiling<T, 64, 32, false, false>{});
  } else {
    return body(Tiling<T, 32, 16, false, false>{});
  }
}

// Rows of a matrix in memory, of which `count` exist, apart from those that a mask hides, if there is one.
template <class S>
struct Matrix {
  const S* at;
  int64_t stride;
  int count;
  const S* mask = nullptr;
  int64_t mask_stride = 0;

  BELFRY_GPU Matrix From(int row) const {
    return {at + row * stride, stride, count - row, mask == nullptr ? mask : mask + row * mask_stride, mask_stride};
  }
  BELFRY_GPU bool Has(int row) const {
    constexpr auto kHides = -std::numeric_limits<decltype(gpu::Widen(S()))>::infinity();
    return row < count && (mask == nullptr || gpu::Widen(mask[row * mask_stride]) != kHides);
  }
};

// The keys that each query sees.
struct Sight {
  int t, s, ahead;
  bool causal;

  BELFRY_GPU explicit Sight(const Problem& p)
      : t(static_cast<int>(p.t)), s(static_cast<int>(p.s)), ahead(s - t), causal(p.causal) {}
  // Keys [0, End(query)) are seen.
  BELFRY_GPU int End(int query) const {
    if (!causal) return s;
    const int end = query + 1 + ahead;
    return end < 0 ? 0 : end < s ? end : s;
  }
  BELFRY_GPU bool Sees(int query, int key) const { return query < t && key < End(query); }
};

// The work of one block: a head of one example, the first of its rows, and a part of the columns.
struct Place {
  int64_t batch, head;
  int own, column;

  // Blocks of the last rows, which see the most keys or else the fewest queries, come first if `last_first`.
  template <class Tiling>
  BELFRY_GPU static Place Of(int64_t block, int64_t heads, int64_t batches, int64_t rows, int64_t d, bool last_first) {
    const int64_t parts = Tiling::Parts(d), tiles = (rows + kOwnRows - 1) / kOwnRows;
    const int64_t tile = block / parts / heads / batches, head = block / parts % heads;
    return {block / parts / heads % batches, head, static_cast<int>((last_first ? tiles - 1 - tile : tile) * kOwnRows),
            static_cast<int>(block % parts * Tiling::width)};
  }
};
template <class Tiling>
int64_t Blocks(int64_t heads, int64_t batches, int64_t rows, int64_t d) {
  return Tiling::Parts(d) * heads * batches * ((rows + kOwnRows - 1) / kOwnRows);
}

// The memory of a block, as one of its warps sees it.
template <class Tiling>
struct BlockMemory {
  typename Tiling::S *first, *second;  // [others, width]
  void *own, *product;                 // the warp's own

  BELFRY_GPU BlockMemory(void* shared, const gpu::Warp& warp) : first(static_cast<typename Tiling::S*>(shared)) {
    second = first + Tiling::kMatrix;
    own = reinterpret_cast<unsigned char*>(second + Tiling::kMatrix) + warp.index() * Tiling::kWarpBytes;
    product = static_cast<unsigned char*>(own) + Tiling::Own::kBytes;
  }
};

// A head's columns [begin, end), and whether 16 bytes at a time can be read.
struct Columns {
  int begin, end;
  bool packs;
};

// Begins to copy the first `others` rows of x to `tile`; what does not exist becomes 0.
template <class Tiling>
BELFRY_GPU void LoadTile(const gpu::Warp& warp, const Matrix<typename Tiling::S>& x, const Columns& columns,
                         typename Tiling::S* tile) {
  using S = typename Tiling::S;
  constexpr int kPack = static_cast<int>(16 / sizeof(S)), kPacks = Tiling::width / kPack;
  constexpr int kPitch = gpu::kPitch<typename Tiling::T, Tiling::width>;
  const int width = columns.end - columns.begin;
  if (columns.packs) {
    BELFRY_UNROLL
    for (int i = warp.rank; i < Tiling::others * kPacks; i += gpu::Warp::kThreads) {
      const int row = i / kPacks, column = i % kPacks * kPack;
      const bool there = x.Has(row) && column < width;
      gpu::CopySixteenBytes(tile + row * kPitch + column, there ? x.at + row * x.stride + columns.begin + column : x.at,
                            there);
    }
    return;
  }
  for (int i = warp.rank; i < Tiling::others * Tiling::width; i += gpu::Warp::kThreads) {
    const int row = i / Tiling::width, column = i % Tiling::width;
    tile[row * kPitch + column] = x.Has(row) && column < width ? x.at[row * x.stride + columns.begin + column] : S(0);
  }
}
// Waits until all of the block have read a tile, and for the one that replaces it.
template <class Tiling>
BELFRY_GPU void ReplaceTile(const gpu::Warp& warp, const Matrix<typename Tiling::S>& x, const Columns& columns,
                            typename Tiling::S* tile) {
  warp.WaitForBlock();
  LoadTile<Tiling>(warp, x, columns, tile);
  gpu::WaitForCopies();
  warp.WaitForBlock();
}

// The sums of own rows times other rows over all columns of the head. If resident, `own` holds the warp's rows and
// `tile` the others.
template <class Tiling>
BELFRY_GPU typename Tiling::Scores Products(const gpu::Warp& warp, typename Tiling::Own& own,
                                            const Matrix<typename Tiling::S>& own_rows,
                                            const Matrix<typename Tiling::S>& others, int d, bool packs,
                                            const BlockMemory<Tiling>& memory, typename Tiling::S* tile) {
  typename Tiling::Scores sums{};
  if constexpr (Tiling::resident) {
    gpu::AddRowProducts(warp, own, tile, sums);
  } else {
    for (int c = 0; c < d; c += Tiling::width) {
      ReplaceTile<Tiling>(warp, others, {c, d, packs}, tile);
      own.Load(warp, own_rows.at + c, own_rows.stride, own_rows.count, d - c, memory.own);
      gpu::AddRowProducts(warp, own, tile, sums);
    }
  }
  return sums;
}

// Products become scores in units of log(2), -infinity where hidden. `query` and `key` are the tile's first; its rows
// are keys if `by_key`, else queries. `mask`: of the example and head, or null.
template <class Tiling, bool by_key>
BELFRY_GPU void FindScores(const gpu::Warp& warp, const Problem& p, const Sight& sight, const typename Tiling::S* mask,
                           int query, int key, typename Tiling::Scores& scores) {
  using C = typename Tiling::C;
  constexpr int kRows = gpu::Warp::kRows, kColumns = gpu::Warp::kColumns<Tiling::others>;
  constexpr int kQueries = by_key ? Tiling::others : gpu::kTileRows, kKeys = by_key ? gpu::kTileRows : Tiling::others;
  const C units = static_cast<C>(p.scale * kLog2E);
  const bool whole = query + kQueries <= sight.t && key + kKeys <= sight.End(query);
  BELFRY_UNROLL
  for (int i = 0; i < kRows; ++i) {
    BELFRY_UNROLL
    for (int j = 0; j < kColumns; ++j) scores.at[i][j] *= units;
  }
  if (whole && mask == nullptr) return;
  BELFRY_UNROLL
  for (int i = 0; i < kRows; ++i) {
    BELFRY_UNROLL
    for (int j = 0; j < kColumns; ++j) {
      const int at_query = query + (by_key ? warp.Column(j) : warp.Row(i));
      const int at_key = key + (by_key ? warp.Row(i) : warp.Column(j));
      const bool seen = sight.Sees(at_query, at_key);
      if (mask != nullptr && seen) {
        scores.at[i][j] = Masked(scores.at[i][j], gpu::Widen(mask[at_query * p.mask[2] + at_key * p.mask[3]]));
      }
      if (!seen) scores.at[i][j] = -std::numeric_limits<C>::infinity();
    }
  }
}

// Writes columns [begin, end) of the warp's rows times `factor`, or 0 where that is 0, whatever the sum.
template <class Tiling, class Factor>
BELFRY_GPU void StoreSums(const gpu::Warp& warp, const typename Tiling::Sums& sums, int count, const Columns& columns,
                          const Factor& factor, typename Tiling::S* to, int64_t stride) {
  BELFRY_UNROLL
  for (int i = 0; i < gpu::Warp::kRows; ++i) {
    if (warp.Row(i) >= count) continue;
    const auto times = factor(i);
    auto* const row = to + warp.Row(i) * stride + columns.begin;
    BELFRY_UNROLL
    for (int j = 0; j < gpu::Warp::kColumns<Tiling::width>; ++j) {
      if (warp.Column(j) >= columns.end - columns.begin) continue;
      const auto sum = sums.at[i][j];
      row[warp.Column(j)] = gpu::Narrow<typename Tiling::T>(times == 0 ? times : sum * times);
    }
  }
}

// A running maximum and, of each lane's columns alone, a running sum of 2^(score - maximum), for each of a warp's rows.
template <class C>
struct Running {
  C top[gpu::Warp::kRows], sum[gpu::Warp::kRows], fade[gpu::Warp::kRows];

  BELFRY_GPU Running() {
    for (int i = 0; i < gpu::Warp::kRows; ++i) top[i] = -std::numeric_limits<C>::infinity(), sum[i] = 0, fade[i] = 1;
  }
  // Replaces scores by probabilities relative to the largest score so far. `fade`: the factor on older terms.
  template <class Scores>
  BELFRY_GPU void Exponentiate(const gpu::Warp& warp, Scores& scores) {
    BELFRY_UNROLL
    for (int i = 0; i < gpu::Warp::kRows; ++i) {
      C largest = top[i];
      for (const C x : scores.at[i]) largest = std::fmax(largest, x);
      largest = warp.RowMax(largest);
      const C shift = largest == -std::numeric_limits<C>::infinity() ? C(0) : largest;
      fade[i] = gpu::Exp2(top[i] - shift);
      top[i] = largest;
      C part = 0;
      for (C& x : scores.at[i]) part += x = gpu::Exp2(x - shift);
      sum[i] = sum[i] * fade[i] + part;
    }
  }
};

// Unimplemented if extents do not fit in 32 bits.
inline absl::Status CheckExtents(const Problem& p) {
  constexpr int64_t kMost = int64_t{1} << 30;
  if (p.t <= kMost && p.s <= kMost && p.d <= kMost) return absl::OkStatus();
  return absl::UnimplementedError(absl::StrCat("attention of ", p.t, " queries and ", p.s, " keys of width ", p.d,
                                               " on a GPU; each may be ", kMost));
}

// True if rows of these tensors can be read 16 bytes at a time.
template <class S, class... Pointers>
bool ReadsPacks(const Problem& p, Pointers... tensors) {
  const auto whole = [](auto bytes) { return bytes % 16 == 0; };
  return whole(p.d * static_cast<int64_t>(sizeof(S))) && (whole(reinterpret_cast<uintptr_t>(tensors)) && ...);
}

}  // namespace belfry::ops::attention
