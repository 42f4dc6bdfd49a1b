// The products that pack their operands: by registers (BlockedProduct) and by tiles (TileProduct).
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
#include "ops/activation/epilogue_impl.h"
#include "ops/array.h"
#include "ops/builtin_ops.h"
#include "ops/math.h"
#include "ops/product/tile_product_impl.h"
#include "tests/main/testing.h"
#include "tests/ops/harness/evaluate.h"

namespace belfry::ops {
namespace {

struct Sizes {
  int64_t m, n, k;
};
constexpr Sizes kSizes[] = {{1, 1, 1},      {1, 300, 70},  {7, 1, 513},    {5, 33, 65},
                            {48, 64, 256},  {49, 65, 257}, {130, 31, 17},  {200, 129, 600},
                            {3, 1000, 300}, {2, 530, 600}, {520, 34, 530}, {64, 64, 0}};

// A kind of product for elements Type.
template <class T>
struct ByRegisters {
  using Type = T;
  static constexpr bool kTakesEmptySums = true;
  static bool Runs() { return true; }
  static std::vector<int> Threads() { return {2, 5}; }
  static BlockedProduct<T> Make(const Sizes& s, bool transpose_a, bool transpose_b) {
    return BlockedProduct<T>(s.m, s.n, s.k, transpose_a, transpose_b);
  }
};
template <simd::Tiles tiles>
struct ByTiles {
  using Type = BFloat16;
  static constexpr bool kTakesEmptySums = false;
  static std::vector<int> Threads() { return {3}; }
  static bool Runs() { return tiles == simd::Tiles::kEmulation || simd::AvailableTiles() == tiles; }
  static TileProduct Make(const Sizes& s, bool transpose_a, bool transpose_b) {
    return TileProduct(tiles, s.m, s.n, s.k, transpose_a, transpose_b);
  }
};
using Emulated = ByTiles<simd::Tiles::kEmulation>;
using ByInstructions = ByTiles<simd::Tiles::kInstructions>;

template <class T>
struct Operands {
  std::vector<T> a, b, bias;  // without a bias it is empty
};

template <class Kind, class T = typename Kind::Type>
std::vector<T> Product(const Sizes& s, bool transpose_a, bool transpose_b, const Operands<T>& in, int threads) {
  const ScopedParallelThreads scoped(threads);
  const auto product = Kind::Make(s, transpose_a, transpose_b);
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

template <class Kind, class T = typename Kind::Type>
void ExpectProduct(const Sizes& s, bool transpose_a, bool transpose_b, const Operands<T>& in) {
  // Half of the distance from 1 to the next number.
  const double rounding = std::is_same_v<T, Half> ? 0x1p-11 : std::is_same_v<T, BFloat16> ? 0x1p-8 : 0;
  const std::vector<T> c = Product<Kind>(s, transpose_a, transpose_b, in, 1);
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
  for (const int threads : Kind::Threads()) {
    ASSERT_EQ(Product<Kind>(s, transpose_a, transpose_b, in, threads), c) << threads << " threads";
  }
}

template <class Kind>
class PackedProduct : public testing::Test {};
using Kinds = testing::Types<ByRegisters<float>, ByRegisters<double>, ByRegisters<Half>, ByRegisters<BFloat16>,
                             Emulated, ByInstructions>;
TYPED_TEST_SUITE(PackedProduct, Kinds);

template <class T>
std::vector<T> Draw(int64_t n) {
  std::normal_distribution<float> normal;
  std::vector<T> drawn(n);
  for (T& x : drawn) x = static_cast<T>(normal(TestRandom()));
  return drawn;
}

TYPED_TEST(PackedProduct, IsTheSumWithTheSameBitsForAnyNumberOfThreads) {
  if (!TypeParam::Runs()) GTEST_SKIP() << "this processor has no tiles";
  using T = typename TypeParam::Type;
  int cases = 0;
  for (const Sizes& s : kSizes) {
    if (s.k == 0 && !TypeParam::kTakesEmptySums) continue;
    ++cases;
    for (const int layout : {0, 1, 2, 3}) {
      const bool transpose_a = layout % 2 != 0, transpose_b = layout > 1, bias = ++cases % 2 != 0;
      SCOPED_TRACE(std::to_string(s.m) + " x " + std::to_string(s.k) + " x " + std::to_string(s.n) +
                   (transpose_a ? ", a transposed" : "") + (transpose_b ? ", b transposed" : "") +
                   (bias ? ", bias" : ""));
      ExpectProduct<TypeParam>(s, transpose_a, transpose_b,
                               {Draw<T>(s.m * s.k), Draw<T>(s.k * s.n), Draw<T>(bias ? s.n : 0)});
    }
  }
}

TEST(TileProduct, HasTheBitsOfTheEmulation) {
  if (!ByInstructions::Runs()) GTEST_SKIP() << "this processor has no tiles";
  const Sizes s{37, 45, 1030};
  const Operands<BFloat16> in{Draw<BFloat16>(s.m * s.k), Draw<BFloat16>(s.k * s.n), Draw<BFloat16>(s.n)};
  EXPECT_EQ(Product<ByInstructions>(s, false, true, in, 1), Product<Emulated>(s, false, true, in, 2));
}

// As a node, large enough for tiles where there are any.
TEST(TileProduct, ServesMatMul) {
  const Sizes s{2 * 270, 130, 1000};
  const Operands<BFloat16> in{Draw<BFloat16>(s.m * s.k), Draw<BFloat16>(s.k * s.n), {}};
  EXPECT_EQ(TileProduct::Tiles(s.m, s.n, s.k, false), simd::AvailableTiles());
  Graph graph(BuiltinOps());
  const Scope scope(graph);
  Tensor a(DType::kBFloat16, {2, s.m / 2, s.k}), b(DType::kBFloat16, {s.k, s.n});
  std::copy(in.a.begin(), in.a.end(), a.data<BFloat16>());
  std::copy(in.b.begin(), in.b.end(), b.data<BFloat16>());
  const Output y = MatMul(scope, Const(scope, a), Const(scope, b));
  ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> results, harness::Evaluate({y}, {}));
  const std::vector<double> wide_a = Wide(in.a), wide_b = Wide(in.b);
  for (int64_t at = 0; at < s.m * s.n; at += 7) {
    double sum = 0, size = 0;
    for (int64_t p = 0; p < s.k; ++p) {
      const double term = wide_a[at / s.n * s.k + p] * wide_b[p * s.n + at % s.n];
      sum += term, size += std::abs(term);
    }
    ASSERT_NEAR(static_cast<float>(results[0].data<BFloat16>()[at]), sum, 1e-6 * size + 0x1p-8 * std::abs(sum));
  }
}

// The sum is not rounded before the activation.
TEST(TileProduct, AppliesTheActivationToTheSum) {
  const Sizes s{19, 23, 40};
  const Operands<BFloat16> in{Draw<BFloat16>(s.m * s.k), Draw<BFloat16>(s.k * s.n), Draw<BFloat16>(s.n)};
  const std::vector<double> a = Wide(in.a), b = Wide(in.b), bias = Wide(in.bias);
  const TileProduct product(simd::Tiles::kEmulation, s.m, s.n, s.k, false, false,
                            ActivationLoops({Activation::kSigmoid}));
  std::vector<float> packed(product.packed_elements()), workspace(product.packed_workspace_elements());
  std::vector<BFloat16> c(s.m * s.n);
  product.Pack(in.b.data(), packed.data());
  product.RunPacked(in.a.data(), packed.data(), in.bias.data(), c.data(), workspace.data());
  for (int64_t i = 0; i < s.m * s.n; ++i) {
    double sum = bias[i % s.n];
    for (int64_t p = 0; p < s.k; ++p) sum += a[i / s.n * s.k + p] * b[p * s.n + i % s.n];
    const double y = 1 / (1 + std::exp(-sum));
    ASSERT_NEAR(static_cast<float>(c[i]), y, y * (0x1p-8 + 1e-4));
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
