#include "ops/winograd/products.h"

#include <algorithm>
#include <array>
#include <utility>

#include "ops/winograd/lanes_impl.h"

namespace belfry::ops::winograd {
namespace {

// Vectors per row, and vectors in all, whose sums stay in registers.
constexpr int kVectors = kLanes == 16 ? 4 : 2;
constexpr int kSums = kLanes == 16 ? 24 : 12;
constexpr int MaxRows(int vectors) { return std::min(kSums / vectors, 12); }

template <bool add, int rows, int vectors>
void Block(const Product& p, const float* a, const float* b, float* c) {
  Lanes sums[rows][vectors] = {};
  for (int64_t run = 0; run < p.k; run += p.a_run, a += p.a_jump) {
    const float* x = a;
    const int64_t end = std::min(p.k, run + p.a_run);
    for (int64_t at = run; at < end; ++at, x += p.a_step, b += p.b_row) {
      Lanes row[vectors];
#pragma GCC unroll 4
      for (int j = 0; j < vectors; ++j) row[j] = Load(b + j * p.b_vector);
#pragma GCC unroll 12
      for (int i = 0; i < rows; ++i) {
        const float factor = x[i * p.a_row];
#pragma GCC unroll 4
        for (int j = 0; j < vectors; ++j) sums[i][j] += factor * row[j];
      }
    }
  }
#pragma GCC unroll 12
  for (int i = 0; i < rows; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < vectors; ++j) {
      float* const to = c + i * p.c_row + j * p.c_vector;
      Store(add ? Load(to) + sums[i][j] : sums[i][j], to);
    }
  }
}

using BlockFunction = void (*)(const Product& p, const float* a, const float* b, float* c);
using BlocksByRows = std::array<BlockFunction, 13>;

template <bool add, int vectors, size_t... rows>
constexpr BlocksByRows MakeBlocks(std::index_sequence<rows...>) {
  return {nullptr, &Block<add, static_cast<int>(rows) + 1, vectors>...};
}
template <bool add, size_t... vectors>
constexpr std::array<BlocksByRows, sizeof...(vectors) + 1> AllBlocks(std::index_sequence<vectors...>) {
  return {BlocksByRows{}, MakeBlocks<add, static_cast<int>(vectors) + 1>(
                              std::make_index_sequence<MaxRows(static_cast<int>(vectors) + 1)>())...};
}
template <bool add>
constexpr auto kBlocks = AllBlocks<add>(std::make_index_sequence<kVectors>());

template <bool add>
void Run(const Product& p, const float* a, const float* b, float* c) {
  for (int64_t j = 0; j < p.vectors; j += kVectors) {
    const int width = static_cast<int>(std::min<int64_t>(kVectors, p.vectors - j));
    // Blocks as even as possible.
    const int64_t blocks = (p.m + MaxRows(width) - 1) / MaxRows(width);
    for (int64_t block = 0; block < blocks; ++block) {
      const int64_t begin = p.m * block / blocks, end = p.m * (block + 1) / blocks;
      kBlocks<add>[width][end - begin](p, a + begin * p.a_row, b + j * p.b_vector,
                                       c + begin * p.c_row + j * p.c_vector);
    }
  }
}

}  // namespace

void Multiply(const Product& product, const float* a, const float* b, float* c) { Run<false>(product, a, b, c); }
void MultiplyAndAdd(const Product& product, const float* a, const float* b, float* c) { Run<true>(product, a, b, c); }

}  // namespace belfry::ops::winograd
