#include <algorithm>
#include <array>
#include <utility>

#include "ops/simd/product_impl.h"

namespace belfry::ops::simd {
namespace {

// Registers for sums, in all. Products that are wider than kProductWidth have few rows.
constexpr int kSums = kProductRows * kProductWidth;
constexpr int MaxRows(int vectors) { return vectors > kProductWidth ? kFewRows : std::min(kSums / vectors, 12); }

// Rows of b by which products of few rows prefetch it: they take as long as b takes to come from a far cache.
constexpr int64_t kAhead = 8;

// `ahead`: rows of b, p.b_row apart, that are read next, of which each of p.k is prefetched into the L2 cache.
template <class C, bool add, int rows, int vectors>
void Block(const Product& p, const C* a, const C* b, C* c, const C* ahead) {
  using V = Vector<C>;
  using Lanes = typename V::Lanes;
  Lanes sums[rows][vectors] = {};
  for (int64_t run = 0; run < p.k; run += p.a_run, a += p.a_jump) {
    const C* x = a;
    const int64_t end = std::min(p.k, run + p.a_run);
    for (int64_t at = run; at < end; ++at, x += p.a_step, b += p.b_row) {
      if constexpr (rows <= kFewRows && vectors == kWideProduct) {
#pragma GCC unroll 4
        for (int j = 0; j < vectors; j += 64 / kRegisterBytes)
          __builtin_prefetch(b + kAhead * p.b_row + j * p.b_vector);
      } else if constexpr (rows > kFewRows) {
        __builtin_prefetch(ahead, /*write=*/0, /*locality=*/2);
        ahead += p.b_row;
      }
      Lanes row[vectors];
#pragma GCC unroll 4
      for (int j = 0; j < vectors; ++j) row[j] = V::Load(b + j * p.b_vector);
#pragma GCC unroll 12
      for (int i = 0; i < rows; ++i) {
        const C factor = x[i * p.a_row];
#pragma GCC unroll 4
        for (int j = 0; j < vectors; ++j) sums[i][j] += factor * row[j];
      }
    }
  }
#pragma GCC unroll 12
  for (int i = 0; i < rows; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < vectors; ++j) {
      C* const to = c + i * p.c_row + j * p.c_vector;
      V::Store(add ? V::Load(to) + sums[i][j] : sums[i][j], to);
    }
  }
}

template <class C>
using BlockFunction = void (*)(const Product& p, const C* a, const C* b, C* c, const C* ahead);
template <class C>
using BlocksByRows = std::array<BlockFunction<C>, 13>;

template <class C, bool add, int vectors, size_t... rows>
constexpr BlocksByRows<C> MakeBlocks(std::index_sequence<rows...>) {
  return {nullptr, &Block<C, add, static_cast<int>(rows) + 1, vectors>...};
}
template <class C, bool add, size_t... vectors>
constexpr std::array<BlocksByRows<C>, sizeof...(vectors) + 1> AllBlocks(std::index_sequence<vectors...>) {
  return {BlocksByRows<C>{}, MakeBlocks<C, add, static_cast<int>(vectors) + 1>(
                                 std::make_index_sequence<MaxRows(static_cast<int>(vectors) + 1)>())...};
}
template <class C, bool add>
constexpr auto kBlocks = AllBlocks<C, add>(std::make_index_sequence<kWideProduct>());

template <class C, bool add>
void Run(const Product& p, const C* a, const C* b, C* c) {
  const int64_t widest = p.m <= kFewRows ? kWideProduct : kProductWidth;
  for (int64_t j = 0; j < p.vectors; j += widest) {
    const int width = static_cast<int>(std::min(widest, p.vectors - j));
    // Blocks as even as possible.
    const int64_t blocks = (p.m + MaxRows(width) - 1) / MaxRows(width);
    for (int64_t block = 0; block < blocks; ++block) {
      const int64_t begin = p.m * block / blocks, end = p.m * (block + 1) / blocks;
      // The first blocks of a panel prefetch a vector each of the next one, or of what follows b, which callers of many
      // products read next. A prefetch may name any address.
      const C* const panel = b + j * p.b_vector;
      const C* const ahead = block < widest ? panel + (widest + block) * p.b_vector : panel;
      kBlocks<C, add>[width][end - begin](p, a + begin * p.a_row, panel, c + begin * p.c_row + j * p.c_vector, ahead);
    }
  }
}

}  // namespace

template <class C>
void Multiply(const Product& product, const C* a, const C* b, C* c) {
  Run<C, false>(product, a, b, c);
}
template <class C>
void MultiplyAndAdd(const Product& product, const C* a, const C* b, C* c) {
  Run<C, true>(product, a, b, c);
}

template void Multiply(const Product&, const float*, const float*, float*);
template void Multiply(const Product&, const double*, const double*, double*);
template void MultiplyAndAdd(const Product&, const float*, const float*, float*);
template void MultiplyAndAdd(const Product&, const double*, const double*, double*);

}  // namespace belfry::ops::simd
