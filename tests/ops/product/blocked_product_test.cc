#include "ops/product/blocked_product_impl.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "framework/base/parallel.h"

namespace belfry::ops {
namespace {

struct Sizes {
  int64_t m, n, k;
};
constexpr Sizes kSizes[] = {{1, 1, 1},     {1, 300, 70},  {7, 1, 513},     {5, 33, 65},    {48, 64, 256},
                            {49, 65, 257}, {130, 31, 17}, {200, 129, 600}, {3, 1000, 300}, {64, 64, 0}};

template <class C>
std::vector<C> Product(const Sizes& s, bool transpose_a, bool transpose_b, const std::vector<C>& a,
                       const std::vector<C>& b, int threads) {
  const ScopedParallelThreads scoped(threads);
  const BlockedProduct<C> product(s.m, s.n, s.k, transpose_a, transpose_b);
  std::vector<C> c(s.m * s.n + 1, C(7)), workspace(product.workspace_elements() + 1, C(7));
  product.Run(a.data(), b.data(), c.data(), workspace.data());
  EXPECT_EQ(c.back(), C(7)) << "the element behind the last";
  EXPECT_EQ(workspace.back(), C(7)) << "the element behind the workspace";
  c.pop_back();
  return c;
}

template <class C>
void ExpectProducts() {
  std::mt19937_64 random(testing::UnitTest::GetInstance()->random_seed());
  std::normal_distribution<C> normal;
  for (const Sizes& s : kSizes) {
    std::vector<C> a(s.m * s.k), b(s.k * s.n);
    for (C& x : a) x = normal(random);
    for (C& x : b) x = normal(random);
    for (const bool transpose_a : {false, true}) {
      for (const bool transpose_b : {false, true}) {
        SCOPED_TRACE(std::to_string(s.m) + " x " + std::to_string(s.k) + " x " + std::to_string(s.n) +
                     (transpose_a ? ", a transposed" : "") + (transpose_b ? ", b transposed" : ""));
        const std::vector<C> c = Product(s, transpose_a, transpose_b, a, b, 1);
        for (int64_t i = 0; i < s.m; ++i) {
          for (int64_t j = 0; j < s.n; ++j) {
            long double sum = 0, size = 0;
            for (int64_t p = 0; p < s.k; ++p) {
              const long double term = static_cast<long double>(a[transpose_a ? p * s.m + i : i * s.k + p]) *
                                       b[transpose_b ? j * s.k + p : p * s.n + j];
              sum += term, size += std::abs(term);
            }
            ASSERT_LE(std::abs(c[i * s.n + j] - sum), 8 * std::numeric_limits<C>::epsilon() * (size + 1e-30L));
          }
        }
        for (const int threads : {2, 3, 5}) {
          ASSERT_EQ(Product(s, transpose_a, transpose_b, a, b, threads), c) << threads << " threads";
        }
      }
    }
  }
}

TEST(BlockedProduct, IsTheSumWithTheSameBitsForAnyNumberOfThreads) {
  ExpectProducts<float>();
  ExpectProducts<double>();
}

TEST(BlockedProduct, SmallProductsNeedLittleWorkspace) {
  const ScopedParallelThreads scoped(1);
  // b in panels and a tile of c, of at most 64 columns; and a transposed.
  EXPECT_LE(BlockedProduct<float>(32, 32, 32, false, false).workspace_elements(), 2 * 32 * 64);
  EXPECT_LE(BlockedProduct<float>(32, 32, 32, true, false).workspace_elements(), 2 * 32 * 64 + 32 * 32);
}

}  // namespace
}  // namespace belfry::ops
