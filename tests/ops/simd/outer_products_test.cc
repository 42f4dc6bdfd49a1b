#include "ops/simd/outer_products_impl.h"

#include <random>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/main/testing.h"

namespace belfry::ops::simd {
namespace {

// Integers, of which all sums are exact.
TEST(OuterProducts, AddToTheMatrix) {
  std::mt19937 random(TestSeed());
  std::uniform_int_distribution<int> integer(-9, 9);
  for (const int64_t m : {1, 5, 6, 7, 131}) {
    for (const int64_t n : {1, 3, 8, 16, 17, 200}) {
      SCOPED_TRACE(absl::StrCat(m, " x ", n));
      const int64_t c_row = n + 3;
      std::vector<double> c(static_cast<size_t>(m * c_row), 1), expected = c;
      std::vector<double> memory(static_cast<size_t>(OuterProducts<double>::Elements(m, n, 256)) + 8);
      double* const aligned = memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64) % 64 / 8;
      OuterProducts<double> products(m, n, 256, aligned);
      for (const int rows : {256, 0, 41}) {
        for (int row = 0; row < rows; ++row) {
          std::vector<double> a(static_cast<size_t>(m)), b(static_cast<size_t>(n));
          for (double& x : a) x = integer(random);
          for (double& x : b) x = integer(random);
          products.Add(a.data(), b.data());
          for (int64_t i = 0; i < m; ++i) {
            for (int64_t j = 0; j < n; ++j) expected[i * c_row + j] += a[i] * b[j];
          }
        }
        products.AddTo(c.data(), c_row);
        ASSERT_EQ(c, expected);
      }
    }
  }
}

// Each element is in one band, and no band has more elements of memory than it says.
TEST(OuterProductBands, CoverTheMatrix) {
  for (const int64_t m : {1, 6, 13, 100}) {
    for (const int64_t n : {1, 16, 33, 64}) {
      for (const int64_t threads : {1, 2, 7, 64}) {
        const OuterProductBands<float> bands(m, n, 300, threads);
        std::vector<int> covered(static_cast<size_t>(m * n));
        ASSERT_LE(bands.count(), threads);
        for (int64_t i = 0; i < bands.count(); ++i) {
          const auto band = bands.At(i);
          EXPECT_TRUE(band.rows > 0 && band.columns > 0);
          EXPECT_LE(OuterProducts<float>::Elements(band.rows, band.columns, bands.rows()), bands.elements());
          for (int64_t row = band.row; row < band.row + band.rows; ++row) {
            for (int64_t column = band.column; column < band.column + band.columns; ++column) {
              ++covered[row * n + column];
            }
          }
        }
        EXPECT_EQ(covered, std::vector<int>(covered.size(), 1));
      }
    }
  }
}

}  // namespace
}  // namespace belfry::ops::simd
