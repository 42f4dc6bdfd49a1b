#include "ops/simd/tiles_impl.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "tests/main/testing.h"

namespace belfry::ops::simd {
namespace {

using Bits = std::vector<uint32_t>;

BFloat16 FromBits(uint32_t bits) { return std::bit_cast<BFloat16>(static_cast<uint16_t>(bits)); }

// Random elements whose exponents are `least` to `most`, as bfloat16 stores them.
std::vector<BFloat16> Draw(uint32_t least, uint32_t most) {
  std::vector<BFloat16> drawn(kStripStep);
  for (BFloat16& x : drawn) {
    const uint32_t exponent = least + static_cast<uint32_t>(TestRandom()() % (most - least + 1));
    x = FromBits(static_cast<uint32_t>(TestRandom()() % 2 << 15 | exponent << 7 | TestRandom()() % 128));
  }
  return drawn;
}

struct Operands {
  std::vector<BFloat16> a, b;
  std::vector<float> sums;
};

// NaN has many bit patterns, and none of them is promised.
Bits Multiply(Tiles tiles, const Operands& in, int64_t rows, int64_t columns, bool add) {
  std::vector<float> sums = in.sums;
  TileScope(tiles).Multiply({rows, columns, 1, in.a.data(), in.b.data(), sums.data(), add});
  Bits bits;
  for (const float sum : sums) bits.push_back(std::bit_cast<uint32_t>(std::isnan(sum) ? std::nanf("") : sum));
  return bits;
}

TEST(Tiles, EmulationHasTheBitsOfTheInstructions) {
  if (AvailableTiles() != Tiles::kInstructions) GTEST_SKIP() << "this processor has no tiles";
  struct Exponents {
    uint32_t a_least, a_most, b_least, b_most;
  };
  // Ordinary numbers, products around the smallest normal number, subnormal ones, too large ones, and all with NaN.
  for (const Exponents& e : {Exponents{120, 130, 120, 130}, Exponents{55, 75, 55, 75}, Exponents{0, 3, 127, 128},
                             Exponents{185, 195, 185, 195}, Exponents{0, 255, 0, 255}}) {
    for (int trial = 0; trial < 20; ++trial) {
      Operands in{Draw(e.a_least, e.a_most), Draw(e.b_least, e.b_most), std::vector<float>(4 * kTileSums)};
      for (float& sum : in.sums) {
        sum = static_cast<float>(static_cast<int>(TestRandom()() % 2000) - 1000);
        if (e.a_least < 100) sum = std::ldexp(sum, -140);
      }
      for (const int64_t rows : {1, 2}) {
        for (const int64_t columns : {1, 2}) {
          const bool add = trial % 2 == 0;
          ASSERT_EQ(Multiply(Tiles::kInstructions, in, rows, columns, add),
                    Multiply(Tiles::kEmulation, in, rows, columns, add))
              << "exponents from " << e.a_least << " and " << e.b_least;
        }
      }
    }
  }
}

// 2^-126 - f 2^-150 is 0 if it is less than the smallest normal number after rounding to 24 bits of any exponent.
TEST(Tiles, WhatRoundsToTheSmallestNormalNumber) {
  struct Case {
    float f, sum;
  };
  for (const Case& c : {Case{1, 0}, Case{0.75, 0}, Case{0.515625, 0}, Case{0.5, 0x1p-126f}, Case{0.25, 0x1p-126f}}) {
    Operands in{std::vector<BFloat16>(kStripStep, BFloat16(0)), std::vector<BFloat16>(kStripStep, BFloat16(0)),
                std::vector<float>(kTileSums)};
    in.a[0] = in.b[0] = BFloat16(0x1p-63f);
    in.a[2] = BFloat16(-0x1p-75f), in.b[2 * kTileRows] = BFloat16(c.f * 0x1p-75f);
    EXPECT_EQ(std::bit_cast<float>(Multiply(Tiles::kEmulation, in, 1, 1, false)[0]), c.sum) << c.f;
    if (AvailableTiles() == Tiles::kInstructions) {
      EXPECT_EQ(Multiply(Tiles::kInstructions, in, 1, 1, false), Multiply(Tiles::kEmulation, in, 1, 1, false)) << c.f;
    }
  }
}

// Operands of any extents, stored either way, against their products in double; what is packed beyond them is 0.
TEST(Tiles, MultiplyWhatWasPacked) {
  for (const int64_t m : {1, 15, 16, 17, 32}) {
    for (const int64_t n : {1, 9, 31, 32}) {
      for (const int64_t k : {1, 2, 31, 32}) {
        for (const int layout : {0, 1, 2, 3}) {
          const bool a_rows = layout % 2 == 0, b_rows = layout < 2;
          const std::vector<BFloat16> a = Draw(124, 128), b = Draw(124, 128);
          Operands in{std::vector<BFloat16>(kStripStep, BFloat16(NAN)),
                      std::vector<BFloat16>(kStripStep, BFloat16(NAN)), std::vector<float>(4 * kTileSums)};
          PackA({a.data(), a_rows ? k : m, k, a_rows}, {0, m, 0, 1, kStripStep}, in.a.data());
          PackB({b.data(), b_rows ? k : n, k, b_rows}, {0, n, 0, 1, kStripStep}, in.b.data());
          const int64_t rows = (m + 15) / 16, columns = (n + 15) / 16;
          const Bits sums = Multiply(Tiles::kEmulation, in, rows, columns, false);
          for (int64_t i = 0; i < rows * kTileRows; ++i) {
            for (int64_t j = 0; j < columns * kTileRows; ++j) {
              double sum = 0, size = 0;
              for (int64_t p = 0; p < k && i < m && j < n; ++p) {
                const double term = static_cast<double>(static_cast<float>(a[a_rows ? i * k + p : p * m + i])) *
                                    static_cast<float>(b[b_rows ? j * k + p : p * n + j]);
                sum += term, size += std::abs(term);
              }
              const int64_t tile = i / kTileRows * columns + j / kTileRows;
              const float actual =
                  std::bit_cast<float>(sums[tile * kTileSums + i % kTileRows * kTileRows + j % kTileRows]);
              ASSERT_LE(std::abs(actual - sum), 16 * std::numeric_limits<float>::epsilon() * size)
                  << m << " x " << k << " x " << n << ", layout " << layout << ", at " << i << ", " << j;
            }
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace belfry::ops::simd
