// Vector registers and the small products of attention's blocks. Internal: it includes Eigen.
#pragma once

#include <Eigen/Core>
#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>

namespace belfry::ops::attention {

// Registers of the target processor, for C float or double.
template <class C>
struct Vector {
  static constexpr int kLanes = Eigen::internal::packet_traits<C>::size;
  static constexpr int kBytes = kLanes * static_cast<int>(sizeof(C));
  using Int = std::conditional_t<sizeof(C) == 4, int32_t, int64_t>;
  using Lanes [[gnu::vector_size(kBytes)]] = C;
  using Bits [[gnu::vector_size(kBytes)]] = Int;
  using Unaligned [[gnu::vector_size(kBytes), gnu::aligned(sizeof(C)), gnu::may_alias]] = C;

  static Lanes Load(const C* from) { return *reinterpret_cast<const Unaligned*>(from); }
  static void Store(Lanes x, C* to) { *reinterpret_cast<Unaligned*>(to) = x; }
  static Lanes Fill(C x) { return Lanes{} + x; }
  static Lanes Choose(Bits condition, Lanes a, Lanes b) { return condition ? a : b; }
  // NaN in x does not replace `top`.
  static Lanes Max(Lanes top, Lanes x) { return Choose(x > top, x, top); }

  // 2^x for x up to about 0: 0 below the smallest normal number, and NaN of NaN. The remainder of x after rounding to
  // an integer goes through the Taylor series of exp, whose first omitted term is below half a rounding.
  static Lanes Exp2(Lanes x) {
    constexpr int kMantissa = std::numeric_limits<C>::digits - 1;
    constexpr C kLeast = std::numeric_limits<C>::min_exponent - 1;
    constexpr C kRounder = C(3) * (Int{1} << (kMantissa - 1));  // adding it leaves no bits for a fraction
    constexpr Int kOne = static_cast<Int>(std::numeric_limits<C>::max_exponent - 1) << kMantissa;
    constexpr auto kSeries = [] {
      std::array<C, sizeof(C) == 4 ? 8 : 14> series{};
      double term = 1;
      for (size_t i = 0; i < series.size(); ++i) {
        series[i] = static_cast<C>(term);
        term *= 0.69314718055994530942 / static_cast<double>(i + 1);
      }
      return series;
    }();
    const Bits below = x < Fill(kLeast);
    x = Choose(below, Fill(kLeast), x);
    const Lanes shifted = x + kRounder, rest = x - (shifted - kRounder);
    Lanes power = Fill(kSeries.back());
#pragma GCC unroll 16
    for (size_t i = 1; i < kSeries.size(); ++i) power = power * rest + kSeries[kSeries.size() - 1 - i];
    const Bits exponent = ((Bits)shifted << kMantissa) + kOne;
    return Choose(below, Lanes{}, power * (Lanes)exponent);
  }
};

// --- Products ---

// A block's rows come in tiles. For the tile of rows [begin, end): the part of the inner extent, and the first vector
// of the result, that are needed.
struct Part {
  int64_t k_begin, k_end, first_vector;
};

// The tile of results that stays in registers, in vectors: of a row, and of all rows.
template <class C>
inline constexpr int kTileWidth = Vector<C>::kBytes == 64 ? 4 : 2;
template <class C>
inline constexpr int kTileRows = Vector<C>::kBytes == 64 ? 6 : 5;

template <class C>
struct Tile {
  const C* a;
  int64_t a_stride;
  const C* b;
  int64_t b_row;
  C* c;
  int64_t c_row, k;
};

template <class C, bool a_transposed, bool add, int rows, int width>
void MultiplyTile(const Tile<C>& tile) {
  using V = Vector<C>;
  using Lanes = typename V::Lanes;
  Lanes sums[rows][width] = {};
  const C *a = tile.a, *b = tile.b;
  for (int64_t p = 0; p < tile.k; ++p, a += a_transposed ? tile.a_stride : 1, b += tile.b_row) {
    Lanes row[width];
#pragma GCC unroll 4
    for (int j = 0; j < width; ++j) row[j] = V::Load(b + j * V::kLanes);
#pragma GCC unroll 8
    for (int i = 0; i < rows; ++i) {
      const C factor = a[i * (a_transposed ? 1 : tile.a_stride)];
#pragma GCC unroll 4
      for (int j = 0; j < width; ++j) sums[i][j] += factor * row[j];
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < rows; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < width; ++j) {
      C* const to = tile.c + i * tile.c_row + j * V::kLanes;
      V::Store(add ? V::Load(to) + sums[i][j] : sums[i][j], to);
    }
  }
}

template <class C, bool a_transposed, bool add>
struct Tiles {
  using Function = void (*)(const Tile<C>&);
  template <int width, size_t... rows>
  static constexpr std::array<Function, kTileRows<C>> OfWidth(std::index_sequence<rows...>) {
    return {&MultiplyTile<C, a_transposed, add, static_cast<int>(rows) + 1, width>...};
  }
  template <size_t... widths>
  static constexpr std::array<std::array<Function, kTileRows<C>>, kTileWidth<C>> All(std::index_sequence<widths...>) {
    return {OfWidth<static_cast<int>(widths) + 1>(std::make_index_sequence<kTileRows<C>>())...};
  }
  static constexpr auto kFunctions = All(std::make_index_sequence<kTileWidth<C>>());
};

// c [m, vectors] = or, if `add`, += a [m, k] b [k, vectors], where a is stored as [k, m] if a_transposed. `part`
// returns the Part of the product that matters for a tile of rows.
template <class C, bool a_transposed, bool add, class PartOf>
void Multiply(int64_t m, int64_t vectors, const C* a, int64_t a_stride, const C* b, int64_t b_row, C* c, int64_t c_row,
              const PartOf& part) {
  constexpr int64_t kWidth = kTileWidth<C>, kLanes = Vector<C>::kLanes;
  const int64_t tiles = (m + kTileRows<C> - 1) / kTileRows<C>;
  for (int64_t v = 0; v < vectors; v += kWidth) {
    const int64_t v_end = std::min(v + kWidth, vectors);
    for (int64_t tile = 0; tile < tiles; ++tile) {
      const int64_t begin = m * tile / tiles, end = m * (tile + 1) / tiles;
      const Part of = part(begin, end);
      const int64_t first = std::max(v, of.first_vector), k = std::max<int64_t>(of.k_end - of.k_begin, 0);
      if (first >= v_end || (add && k == 0)) continue;
      const C* const from = a_transposed ? a + of.k_begin * a_stride + begin : a + begin * a_stride + of.k_begin;
      Tiles<C, a_transposed, add>::kFunctions[v_end - first - 1][end - begin - 1](
          {from, a_stride, b + of.k_begin * b_row + first * kLanes, b_row, c + begin * c_row + first * kLanes, c_row,
           k});
    }
  }
}

// --- Transposition ---

// Exchanges, between rows i and i + `distance` of a square of registers, the lanes that belong to the other row.
template <class C, int distance, size_t... lanes>
void ExchangeLanes(typename Vector<C>::Lanes (&rows)[sizeof...(lanes)], std::index_sequence<lanes...>) {
  constexpr int kCount = sizeof...(lanes), kAway = kCount - distance;
  for (int i = 0; i < kCount; ++i) {
    if ((i & distance) != 0) continue;
    const auto a = rows[i], b = rows[i + distance];
    rows[i] = __builtin_shufflevector(a, b, (lanes & distance ? lanes + kAway : lanes)...);
    rows[i + distance] = __builtin_shufflevector(a, b, (lanes & distance ? lanes + kCount : lanes + distance)...);
  }
}
template <class C, int distance = Vector<C>::kLanes / 2>
void TransposeSquare(typename Vector<C>::Lanes (&rows)[Vector<C>::kLanes]) {
  if constexpr (distance > 0) {
    ExchangeLanes<C, distance>(rows, std::make_index_sequence<Vector<C>::kLanes>());
    TransposeSquare<C, distance / 2>(rows);
  }
}

// y [columns, y_row] = transpose of x [rows, columns], times `factor`.
template <class C>
void TransposeBlock(const C* x, int64_t x_row, int64_t rows, int64_t columns, C factor, C* y, int64_t y_row) {
  using V = Vector<C>;
  const int64_t whole_rows = rows / V::kLanes * V::kLanes, whole_columns = columns / V::kLanes * V::kLanes;
  for (int64_t i = 0; i < whole_rows; i += V::kLanes) {
    for (int64_t j = 0; j < whole_columns; j += V::kLanes) {
      typename V::Lanes square[V::kLanes];
      for (int k = 0; k < V::kLanes; ++k) square[k] = V::Load(x + (i + k) * x_row + j) * factor;
      TransposeSquare<C>(square);
      for (int k = 0; k < V::kLanes; ++k) V::Store(square[k], y + (j + k) * y_row + i);
    }
  }
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = i < whole_rows ? whole_columns : 0; j < columns; ++j) y[j * y_row + i] = x[i * x_row + j] * factor;
  }
}

}  // namespace belfry::ops::attention
