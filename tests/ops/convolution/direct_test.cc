// Direct convolutions in float32 beside plain loops in float64.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/parallel.h"
#include "ops/convolution/conv2d_direct_impl.h"
#include "ops/convolution/conv2d_loops_impl.h"
#include "ops/convolution/direct_impl.h"
#include "ops/onednn/primitive.h"
#include "ops/simd/vector_impl.h"
#include "ops/winograd/winograd_impl.h"
#include "tests/main/seed.h"

namespace belfry::ops {
namespace {

using onednn::Conv2DShape;
using winograd::Pass;

// Memory with the alignment of a workspace, in which NaN shows what was read and not written.
class Floats {
 public:
  explicit Floats(int64_t n) : n_(n), all_(static_cast<size_t>(n) + 16, std::numeric_limits<float>::quiet_NaN()) {}
  float* data() {
    const auto address = reinterpret_cast<uintptr_t>(all_.data());
    return all_.data() + (64 - address % 64) % 64 / sizeof(float);
  }
  std::vector<float> values() { return {data(), data() + n_}; }

 private:
  int64_t n_;
  std::vector<float> all_;
};

class DirectTest : public testing::TestWithParam<int> {
 protected:
  std::vector<float> Normal(int64_t n) {
    std::vector<float> values(static_cast<size_t>(n));
    for (float& value : values) value = normal_(random_);
    return values;
  }
  static std::vector<double> Doubles(const std::vector<float>& x) { return {x.begin(), x.end()}; }

  // The error of a sum of `terms` products is within that of as many roundings of its largest part.
  static void ExpectNear(const std::vector<float>& actual, const std::vector<double>& expected, int64_t terms) {
    const double bound = 8 * std::sqrt(static_cast<double>(terms)) * 0x1p-20;
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t i = 0; i < actual.size(); ++i) ASSERT_NEAR(actual[i], expected[i], bound) << "at " << i;
  }

  void Compare(const Conv2DShape& p) {
    SCOPED_TRACE(p.DebugString());
    const int64_t xs = p.n * p.h * p.w * p.c, ys = p.n * p.out_h() * p.out_w() * p.k, filters = p.r * p.s * p.c * p.k;
    const std::vector<float> x = Normal(xs), filter = Normal(filters), dy = Normal(ys), bias = Normal(p.k);
    const ScopedParallelThreads threads(GetParam());
    {
      const DirectFilterGradient gradient(p);
      Floats actual(filters), workspace(gradient.workspace_floats());
      gradient.Run(x.data(), dy.data(), actual.data(), workspace.data());
      std::vector<double> expected(static_cast<size_t>(filters));
      Conv2DBackpropFilterLoops(p, Doubles(x).data(), Doubles(dy).data(), expected.data());
      ExpectNear(actual.values(), expected, p.n * p.out_h() * p.out_w());
    }
    if (p.k % simd::Vector<float>::kLanes != 0) return;
    std::vector<double> expected(static_cast<size_t>(ys));
    Conv2DForwardLoops(p, Doubles(x).data(), Doubles(filter).data(), expected.data());
    const DirectForward convolution(p);
    Floats actual(ys), packed(convolution.filter_floats()), workspace(convolution.workspace_floats());
    convolution.Pack(filter.data(), packed.data());
    convolution.Run(x.data(), packed.data(), nullptr, false, actual.data(), workspace.data());
    ExpectNear(actual.values(), expected, p.r * p.s * p.c);
    for (size_t i = 0; i < expected.size(); ++i) {
      expected[i] = std::max(expected[i] + bias[i % static_cast<size_t>(p.k)], 0.0);
    }
    convolution.Run(x.data(), packed.data(), bias.data(), true, actual.data(), workspace.data());
    ExpectNear(actual.values(), expected, p.r * p.s * p.c);
  }

 private:
  std::mt19937 random_{TestSeed()};
  std::normal_distribution<float> normal_;
};

TEST_P(DirectTest, StridesAndPadding) {
  Compare({.n = 2,
           .h = 7,
           .w = 9,
           .c = 17,
           .k = 16,
           .r = 3,
           .s = 3,
           .stride_h = 2,
           .stride_w = 2,
           .pad_top = 1,
           .pad_bottom = 1,
           .pad_left = 1,
           .pad_right = 1});
  Compare({.n = 3, .h = 6, .w = 5, .c = 5, .k = 48, .r = 1, .s = 1, .stride_h = 2, .stride_w = 3});
  Compare({.n = 2, .h = 5, .w = 8, .c = 20, .k = 19, .r = 2, .s = 5, .stride_w = 2, .pad_bottom = 1, .pad_left = 4});
}

TEST_P(DirectTest, Dilation) {
  Compare({.n = 1,
           .h = 11,
           .w = 12,
           .c = 4,
           .k = 16,
           .r = 3,
           .s = 3,
           .stride_h = 2,
           .pad_top = 2,
           .pad_left = 3,
           .pad_right = 3,
           .dilation_h = 3,
           .dilation_w = 2});
}

// Taps that never meet the image, and images smaller than the filter.
TEST_P(DirectTest, SmallImages) {
  Compare({.n = 4,
           .h = 1,
           .w = 1,
           .c = 32,
           .k = 16,
           .r = 3,
           .s = 3,
           .pad_top = 1,
           .pad_bottom = 1,
           .pad_left = 1,
           .pad_right = 1});
  Compare({.n = 70,
           .h = 3,
           .w = 3,
           .c = 8,
           .k = 32,
           .r = 3,
           .s = 3,
           .pad_top = 1,
           .pad_bottom = 1,
           .pad_left = 1,
           .pad_right = 1});
  Compare({.n = 2,
           .h = 2,
           .w = 2,
           .c = 3,
           .k = 16,
           .r = 5,
           .s = 5,
           .stride_h = 3,
           .stride_w = 3,
           .pad_top = 5,
           .pad_bottom = 4,
           .pad_left = 5,
           .pad_right = 4});
}

// Lines of more outputs than are multiplied together, and more channels than a panel has.
TEST_P(DirectTest, LongLinesAndManyChannels) {
  Compare({.n = 1, .h = 2, .w = 523, .c = 3, .k = 16, .r = 2, .s = 3, .pad_left = 2});
  Compare({.n = 2, .h = 3, .w = 3, .c = 530, .k = 144, .r = 1, .s = 1});
}

INSTANTIATE_TEST_SUITE_P(Threads, DirectTest, testing::Values(1, 2, 5));

// Strided and wide convolutions are direct where oneDNN is slower, and others are not.
TEST(Direct, WhichConvolutionsAre) {
  if (onednn::ProductsRepeat(DType::kFloat32)) GTEST_SKIP() << "oneDNN's kernels are as fast here";
  using enum Pass;
  const Conv2DShape strided{.n = 3, .h = 8, .w = 8, .c = 128, .k = 256, .r = 3, .s = 3, .stride_h = 2, .stride_w = 2};
  EXPECT_TRUE(IsDirect(strided, kForward) && IsDirect(strided, kBackwardWeights));
  Conv2DShape dense = strided;
  dense.stride_h = dense.stride_w = 1;
  EXPECT_EQ(IsDirect(dense, kForward), !winograd::IsBest(dense, kForward));
  EXPECT_EQ(IsDirect(dense, kBackwardWeights), !winograd::IsBest(dense, kBackwardWeights));
  dense.h = dense.w = 4;  // 2 x 2 outputs
  EXPECT_TRUE(IsDirect(dense, kForward) && IsDirect(dense, kBackwardWeights));
  Conv2DShape pointwise = dense;
  pointwise.r = pointwise.s = 1;
  EXPECT_FALSE(IsDirect(pointwise, kForward));
  EXPECT_TRUE(IsDirect(pointwise, kBackwardWeights));
  pointwise.k = 64;
  EXPECT_FALSE(IsDirect(pointwise, kBackwardWeights));
  Conv2DShape grouped = strided;
  grouped.groups = 64;
  EXPECT_FALSE(IsDirect(grouped, kForward) || IsDirect(grouped, kBackwardWeights));
}

}  // namespace
}  // namespace belfry::ops
