// Blocks of attention's scores on CPUs. Internal.
//
// A block's scores lie transposed, [keys, kQueries]: a register holds one key's scores for neighbouring queries. So the
// maximum and the sum of a query's scores need no operation across lanes, keys and values are read as they are stored,
// and only queries are transposed, once for many blocks of keys.
#pragma once

#include <cmath>
#include <cstdint>

#include "ops/attention/problem_impl.h"
#include "ops/common/compute_impl.h"
#include "ops/simd/math_impl.h"
#include "ops/simd/product_impl.h"
#include "ops/simd/transpose_impl.h"

namespace belfry::ops::attention {

using simd::Vector;

inline constexpr int64_t kQueries = 64, kKeys = 64;

template <class C>
int64_t WholeVectors(int64_t n) {
  return (n + Vector<C>::kLanes - 1) / Vector<C>::kLanes;
}
// The width of a head in scratch memory: whole vectors.
template <class C>
int64_t PaddedWidth(int64_t d) {
  return WholeVectors<C>(d) * Vector<C>::kLanes;
}

// A block's rows come in tiles. For the tile of rows [begin, end): the part of the inner extent, and the first vector
// of the result, that are needed.
struct Part {
  int64_t k_begin, k_end, first_vector;
};

// c [m, vectors] = or, if `add`, += a [m, k] b [k, vectors], where a is stored as [k, m] if a_transposed. `part`
// returns the Part of the product that matters for a tile of rows.
template <class C, bool a_transposed, bool add, class PartOf>
void Multiply(int64_t m, int64_t vectors, const C* a, int64_t a_stride, const C* b, int64_t b_row, C* c, int64_t c_row,
              const PartOf& part) {
  constexpr int64_t kTileRows = 6, kLanes = Vector<C>::kLanes;
  const int64_t tiles = (m + kTileRows - 1) / kTileRows;
  for (int64_t tile = 0; tile < tiles; ++tile) {
    const int64_t begin = m * tile / tiles, end = m * (tile + 1) / tiles;
    const Part of = part(begin, end);
    const int64_t k = std::max<int64_t>(of.k_end - of.k_begin, 0);
    if (of.first_vector >= vectors || (add && k == 0)) continue;
    const simd::Product product{.m = end - begin,
                                .k = k,
                                .vectors = vectors - of.first_vector,
                                .a_row = a_transposed ? 1 : a_stride,
                                .a_step = a_transposed ? a_stride : 1,
                                .b_row = b_row,
                                .b_vector = kLanes,
                                .c_row = c_row,
                                .c_vector = kLanes};
    const C* const from = a_transposed ? a + of.k_begin * a_stride + begin : a + begin * a_stride + of.k_begin;
    const C* const with = b + of.k_begin * b_row + of.first_vector * kLanes;
    C* const to = c + begin * c_row + of.first_vector * kLanes;
    add ? simd::MultiplyAndAdd(product, from, with, to) : simd::Multiply(product, from, with, to);
  }
}

// A block of queries and one of keys. Query i sees key j if j + ahead <= i.
struct BlockPair {
  int64_t batch, head, query, queries, key, keys, ahead;

  BlockPair(const Problem& p, int64_t batch, int64_t head, int64_t query, int64_t key)
      : batch(batch),
        head(head),
        query(query),
        queries(std::min(kQueries, p.t - query)),
        key(key),
        keys(std::min(kKeys, p.s - key)),
        ahead(p.causal ? key - query - (p.s - p.t) : -kKeys) {}

  bool Hidden() const { return ahead >= queries; }
  bool Whole() const { return ahead + keys <= 1; }

  // The part of each row that counts in products whose rows are keys and columns queries, rows queries and inner extent
  // keys, and rows keys and inner extent queries.
  template <class C>
  auto Scores(int64_t width) const {
    return [=, ahead = ahead](int64_t begin, int64_t) {
      return Part{0, width, std::max<int64_t>(begin + ahead, 0) / Vector<C>::kLanes};
    };
  }
  auto OverKeys() const {
    return [ahead = ahead, keys = keys](int64_t, int64_t end) {
      return Part{0, std::clamp<int64_t>(end - ahead, 0, keys), 0};
    };
  }
  auto OverQueries() const {
    return [ahead = ahead, queries = queries](int64_t begin, int64_t) {
      return Part{std::clamp<int64_t>(begin + ahead, 0, queries), queries, 0};
    };
  }
};

// Calls body(key, vector, visible) with the lanes of each register that a block in part hides.
template <class C, class Body>
void ForHidden(const BlockPair& at, const Body& body) {
  using V = Vector<C>;
  if (at.Whole()) return;
  typename V::Mask lane;
  for (int i = 0; i < V::kLanes; ++i) lane[i] = i;
  const int64_t vectors = WholeVectors<C>(at.queries);
  for (int64_t j = std::max<int64_t>(0, 1 - at.ahead); j < at.keys; ++j) {
    const int64_t first = j + at.ahead;  // the first query that sees key j
    for (int64_t v = 0; v < std::min(vectors, (first + V::kLanes - 1) / V::kLanes); ++v) {
      body(j, v, lane >= (typename V::Mask{} + static_cast<typename V::Int>(first - v * V::kLanes)));
    }
  }
}

template <class T>
void AddMask(const Problem& p, const BlockPair& at, const T* mask, Compute<T>* scores) {
  using C = Compute<T>;
  const auto [n, h, t, s] = p.mask;
  const T* const from = mask + at.batch * n + at.head * h + at.query * t + at.key * s;
  for (int64_t i = 0; i < at.queries; ++i) {
    for (int64_t j = 0; j < at.keys; ++j) {
      C& score = scores[j * kQueries + i];
      score = Masked(score, static_cast<C>(from[i * t + j * s]));
    }
  }
}

// scores [keys, kQueries] = the scores in units of log(2), from keys k [keys, k_row] and transposed queries
// qt [d, kQueries] times scale / log(2); -infinity where hidden.
template <class T>
void FindScores(const Problem& p, const BlockPair& at, const Compute<T>* k, int64_t k_row, const Compute<T>* qt,
                const T* mask, Compute<T>* scores) {
  using C = Compute<T>;
  using V = Vector<C>;
  Multiply<C, false, false>(at.keys, WholeVectors<C>(at.queries), k, k_row, qt, kQueries, scores, kQueries,
                            at.Scores<C>(p.d));
  if (mask != nullptr) AddMask(p, at, mask, scores);
  ForHidden<C>(at, [&](int64_t j, int64_t v, typename V::Mask visible) {
    C* const to = scores + j * kQueries + v * V::kLanes;
    V::Store(V::Choose(visible, V::Load(to), V::Fill(-std::numeric_limits<C>::infinity())), to);
  });
}

// Clears the values v [keys, width] that the mask hides from all queries of the head, such as those behind the end of a
// cache: their probabilities of 0 would make NaN of infinities.
template <class T>
void ClearHidden(const Problem& p, int64_t batch, int64_t head, int64_t key, int64_t keys, const T* mask,
                 Compute<T>* v) {
  using C = Compute<T>;
  const auto [n, h, t, s] = p.mask;
  if (mask == nullptr || t != 0) return;
  const T* const from = mask + batch * n + head * h + key * s;
  const int64_t width = PaddedWidth<C>(p.d);
  for (int64_t j = 0; j < keys; ++j) {
    if (static_cast<C>(from[j * s]) == -std::numeric_limits<C>::infinity()) std::fill_n(v + j * width, width, C(0));
  }
}

// Rows of a head in the type of the computation, with their stride.
template <class C>
struct Rows {
  const C* at;
  int64_t stride;
};
// `rows` rows of d elements: those of x, or a copy in `buffer` [rows, PaddedWidth] if x has 16 bits or `copy`.
template <class T>
Rows<Compute<T>> LoadRows(const T* x, int64_t x_row, int64_t rows, int64_t d, bool copy, Compute<T>* buffer) {
  if constexpr (!kIsSixteenBit<T>) {
    if (!copy) return {x, x_row};
  }
  const int64_t width = PaddedWidth<Compute<T>>(d);
  for (int64_t i = 0; i < rows; ++i) Load(x + i * x_row, d, buffer + i * width);
  return {buffer, width};
}
// y [d, kQueries] = the transpose of x [rows, stride], times `factor`; the columns from `rows` to a whole vector are 0.
template <class C>
void TransposeQueries(const Rows<C>& x, int64_t rows, int64_t d, double factor, C* y) {
  simd::TransposeBlock<C>(x.at, x.stride, rows, d, static_cast<C>(factor), y, kQueries);
  const int64_t padded = PaddedWidth<C>(rows);
  if (padded == rows) return;
  for (int64_t i = 0; i < d; ++i) std::fill(y + i * kQueries + rows, y + i * kQueries + padded, C(0));
}

}  // namespace belfry::ops::attention
