#include "ops/product/blocked_product_impl.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "framework/base/half.h"
#include "framework/base/parallel.h"
#include "tests/main/testing.h"

namespace belfry::ops {
namespace {

struct Sizes {
  int64_t m, n, k;
};
constexpr Sizes kSizes[] = {{1, 1, 1},     {1, 300, 70},  {7, 1, 513},     {5, 33, 65},    {48, 64, 256},
                            {49, 65, 257}, {130, 31, 17}, {200, 129, 600}, {3, 1000, 300}, {64, 64, 0}};

template <class T>
struct Operands {
  std::vector<T> a, b, bias;  // without a bias it is empty
};

template <class T>
std::vector<T> Product(const Sizes& s, bool transpose_a, bool transpose_b, const Operands<T>& in, int threads) {
  const ScopedParallelThreads scoped(threads);
  const BlockedProduct<T> product(s.m, s.n, s.k, transpose_a, transpose_b);
  std::vector<T> c(s.m * s.n + 1, T(7));
  std::vector<Compute<T>> workspace(product.workspace_elements() + 1, 7);
  product.Run(in.a.data(), in.b.data(), in.bias.empty() ? nullptr : in.bias.data(), c.data(), workspace.data());
  EXPECT_EQ(c.back(), T(7)) << "the element behind the last";
  EXPECT_EQ(workspace.back(), 7) << "the element behind the workspace";
  c.pop_back();
  return c;
}

template <class T>
std::vector<double> Wide(const std::vector<T>& x) {
  std::vector<double> wide;
  for (const T& one : x) wide.push_back(static_cast<Compute<T>>(one));
  return wide;
}

template <class T>
void ExpectProduct(const Sizes& s, bool transpose_a, bool transpose_b, const Operands<T>& in) {
  // Half of the distance from 1 to the next number.
  const double rounding = std::is_same_v<T, Half> ? 0x1p-11 : std::is_same_v<T, BFloat16> ? 0x1p-8 : 0;
  const std::vector<T> c = Product(s, transpose_a, transpose_b, in, 1);
  const std::vector<double> a = Wide(in.a), b = Wide(in.b), bias = Wide(in.bias), actual = Wide(c);
  for (int64_t i = 0; i < s.m; ++i) {
    for (int64_t j = 0; j < s.n; ++j) {
      long double sum = bias.empty() ? 0 : bias[j], size = std::abs(sum);
      for (int64_t p = 0; p < s.k; ++p) {
        const long double term = static_cast<long double>(a[transpose_a ? p * s.m + i : i * s.k + p]) *
                                 b[transpose_b ? j * s.k + p : p * s.n + j];
        sum += term, size += std::abs(term);
      }
      ASSERT_LE(std::abs(actual[i * s.n + j] - sum),
                8 * std::numeric_limits<Compute<T>>::epsilon() * (size + 1e-30L) + rounding * std::abs(sum));
    }
  }
  for (const int threads : {2, 3, 5}) {
    ASSERT_EQ(Product(s, transpose_a, transpose_b, in, threads), c) << threads << " threads";
  }
}

template <class T>
class BlockedProductTest : public testing::Test {};
using Types = testing::Types<float, double, Half, BFloat16>;
TYPED_TEST_SUITE(BlockedProductTest, Types);

TYPED_TEST(BlockedProductTest, IsTheSumWithTheSameBitsForAnyNumberOfThreads) {
  std::normal_distribution<float> normal;
  const auto draw = [&](int64_t n) {
    std::vector<TypeParam> drawn(n);
    for (TypeParam& x : drawn) x = static_cast<TypeParam>(normal(TestRandom()));
    return drawn;
  };
  for (const Sizes& s : kSizes) {
    for (const int layout : {0, 1, 2, 3}) {
      for (const bool bias : {false, true}) {
        const bool transpose_a = layout % 2 != 0, transpose_b = layout > 1;
        SCOPED_TRACE(std::to_string(s.m) + " x " + std::to_string(s.k) + " x " + std::to_string(s.n) +
                     (transpose_a ? ", a transposed" : "") + (transpose_b ? ", b transposed" : "") +
                     (bias ? ", bias" : ""));
        ExpectProduct<TypeParam>(s, transpose_a, transpose_b, {draw(s.m * s.k), draw(s.k * s.n), draw(bias ? s.n : 0)});
      }
    }
  }
}

TEST(BlockedProduct, SmallProductsNeedLittleWorkspace) {
  const ScopedParallelThreads scoped(1);
  // b in panels and sums, of at most 64 columns; and a transposed or converted, with a cache line after each row.
  EXPECT_LE(BlockedProduct<float>(32, 32, 32, false, false).workspace_elements(), 2 * 32 * 64);
  EXPECT_LE(BlockedProduct<float>(32, 32, 32, true, false).workspace_elements(), 2 * 32 * 64 + 32 * 48);
  EXPECT_LE(BlockedProduct<BFloat16>(32, 32, 32, false, false).workspace_elements(), 2 * 32 * 64 + 32 * 48);
}

}  // namespace
}  // namespace belfry::ops
