// Depthwise convolutions in float32 beside plain loops in float64.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "ops/convolution/engines/depthwise_kernel_impl.h"
#include "ops/simd/vector_impl.h"
#include "tests/ops/convolution/loops_fixture.h"

namespace belfry::ops {
namespace {

constexpr int64_t kLanes = simd::Vector<float>::kLanes;

// A depthwise convolution of [n, h, w, vectors kLanes].
ConvolutionGeometry Depthwise(int64_t n, int64_t h, int64_t w, int64_t vectors, int64_t r, int64_t s, Pads pad = {}) {
  const int64_t c = vectors * kLanes;
  return Padded({.n = n, .h = h, .w = w, .c = c, .k = c, .r = r, .s = s, .groups = c}, pad);
}

class DepthwiseTest : public LoopsTest {
 protected:
  void Compare(const ConvolutionGeometry& p) {
    SCOPED_TRACE(p.DebugString());
    const int64_t xs = p.n * p.h * p.w * p.c, ys = p.n * p.out_h() * p.out_w() * p.c, filters = p.r * p.s * p.c;
    const std::vector<float> x = Normal(xs), filter = Normal(filters), dy = Normal(ys), bias = Normal(p.c);
    std::vector<double> y(static_cast<size_t>(ys)), dx(static_cast<size_t>(xs)), dfilter(static_cast<size_t>(filters));
    Conv2DForwardLoops(p, Doubles(x).data(), Doubles(filter).data(), y.data());
    const auto forward = [&](const float* bias, bool relu) {
      return Result(ys, [&](float* to) { depthwise::Forward(p, x.data(), filter.data(), bias, relu, to); });
    };
    ExpectNear(forward(nullptr, false), y, p.r * p.s);
    for (size_t i = 0; i < y.size(); ++i) y[i] = std::max(y[i] + bias[i % static_cast<size_t>(p.c)], 0.0);
    ExpectNear(forward(bias.data(), true), y, p.r * p.s);

    Conv2DBackpropFilterLoops(p, Doubles(x).data(), Doubles(dy).data(), dfilter.data());
    ExpectNear(Result(filters,
                      [&](float* to) {
                        Floats workspace(depthwise::FilterWorkspace(p));
                        depthwise::BackpropFilter(p, x.data(), dy.data(), to, workspace.data());
                      }),
               dfilter, p.n * p.out_h() * p.out_w());

    if (!depthwise::Slides(p)) return;
    Conv2DBackpropInputLoops(p, Doubles(filter).data(), Doubles(dy).data(), dx.data());
    ExpectNear(Result(xs, [&](float* to) { depthwise::BackpropInput(p, filter.data(), dy.data(), to); }), dx,
               p.r * p.s);
  }
};

TEST_P(DepthwiseTest, ThreeByThree) {
  Compare(Depthwise(2, 7, 9, 3, 3, 3, {1, 1, 1, 1}));
  Compare(Depthwise(3, 6, 5, 1, 3, 3));
  Compare(Depthwise(1, 5, 4, 2, 3, 3, {2, 2, 2, 2}));
  Compare(Depthwise(1, 4, 8, 5, 3, 3, {0, 2, 2, 1}));
  EXPECT_TRUE(depthwise::Slides(Depthwise(1, 4, 8, 5, 3, 3, {0, 2, 2, 1})));
}

TEST_P(DepthwiseTest, Strides) {
  Compare(Strided(Depthwise(2, 14, 15, 3, 3, 3, {1, 1, 1, 1}), 2, 2));
  Compare(Strided(Depthwise(2, 9, 8, 2, 3, 3, {0, 1, 0, 1}), 2, 2));
  Compare(Strided(Depthwise(1, 9, 25, 1, 3, 3), 3, 1));
  Compare(Strided(Depthwise(1, 7, 7, 1, 1, 1), 2, 3));
}

TEST_P(DepthwiseTest, OtherFilters) {
  Compare(Depthwise(2, 9, 8, 2, 5, 5, {2, 2, 2, 2}));
  Compare(Strided(Depthwise(1, 12, 31, 1, 7, 4, {3, 3, 1, 2}), 2, 2));
  Compare(Depthwise(2, 5, 6, 1, 2, 1));
  Compare(Dilated(Depthwise(1, 11, 12, 2, 3, 3, {2, 1, 3, 3}), 2, 3));
}

// Taps that never meet the image, and images smaller than the filter.
TEST_P(DepthwiseTest, SmallImages) {
  Compare(Depthwise(4, 1, 1, 2, 3, 3, {1, 1, 1, 1}));
  Compare(Depthwise(1, 1, 2, 1, 3, 3, {2, 2, 2, 2}));
  Compare(Depthwise(2, 2, 1, 1, 3, 3, {1, 0, 1, 1}));
  Compare(Depthwise(1, 2, 2, 1, 3, 3, {4, 3, 5, 3}));
  Compare(Strided(Depthwise(2, 2, 2, 1, 5, 5, {5, 4, 5, 4}), 3, 3));
}

// Channels for which a line is read in segments, and more outputs than one part of the filter's gradient has.
TEST_P(DepthwiseTest, Segments) {
  Compare(Depthwise(1, 3, 11, 1024 / kLanes, 3, 3, {1, 1, 1, 1}));
  Compare(Strided(Depthwise(1, 3, 21, 1024 / kLanes, 3, 3, {1, 1, 1, 1}), 2, 2));
  Compare(Depthwise(2, 40, 41, 1, 3, 3, {1, 1, 1, 1}));
}

// Batches larger than the caches, whose lines are read in order first.
class LargeDepthwiseTest : public DepthwiseTest {};
TEST_P(LargeDepthwiseTest, Batches) {
  Compare(Depthwise(1, 129, 128, 64 / kLanes, 3, 3, {1, 1, 1, 1}));
  Compare(Strided(Depthwise(1, 129, 128, 64 / kLanes, 3, 3, {0, 1, 1, 1}), 2, 2));
}

TEST_P(DepthwiseTest, NanStaysNan) {
  const ConvolutionGeometry p = Depthwise(1, 3, 3, 1, 3, 3, {1, 1, 1, 1});
  std::vector<float> x = Normal(9 * kLanes), filter = Normal(9 * kLanes);
  x[0] = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> y(9 * kLanes);
  depthwise::Forward(p, x.data(), filter.data(), nullptr, true, y.data());
  for (int64_t i = 0; i < 9; ++i) {
    EXPECT_EQ(std::isnan(y[static_cast<size_t>(i * kLanes)]), i % 3 < 2 && i / 3 < 2) << i;
    EXPECT_GE(y[static_cast<size_t>(i * kLanes + 1)], 0);
  }
}

// The gradient of a tap has an infinity of the image if the tap reads it, and only then. Lines of 1024 channels come in
// segments.
TEST_P(DepthwiseTest, InfinitiesReachTheTapsThatReadThem) {
  for (const ConvolutionGeometry& p :
       {Depthwise(1, 4, 5, 1, 3, 3, {1, 1, 1, 1}), Depthwise(1, 3, 2, 1, 3, 3, {2, 0, 0, 2}),
        Depthwise(1, 2, 11, 1024 / kLanes, 3, 3, {1, 1, 1, 1}), Depthwise(1, 4, 6, 1, 5, 5, {2, 2, 2, 2})}) {
    SCOPED_TRACE(p.DebugString());
    const int64_t pixels = p.n * p.h * p.w, filters = p.r * p.s * p.c;
    const std::vector<float> dy = Normal(p.n * p.out_h() * p.out_w() * p.c);
    for (int64_t pixel = 0; pixel < pixels; ++pixel) {
      std::vector<float> x = Normal(pixels * p.c);
      std::fill_n(x.begin() + pixel * p.c, p.c, std::numeric_limits<float>::infinity());
      std::vector<double> expected(static_cast<size_t>(filters));
      Conv2DBackpropFilterLoops(p, Doubles(x).data(), Doubles(dy).data(), expected.data());
      const auto found = Result(filters, [&](float* to) {
        Floats workspace(depthwise::FilterWorkspace(p));
        depthwise::BackpropFilter(p, x.data(), dy.data(), to, workspace.data());
      });
      for (size_t i = 0; i < expected.size(); i += static_cast<size_t>(p.c)) {
        EXPECT_EQ(std::isfinite(found[i]), std::isfinite(expected[i])) << "pixel " << pixel << ", weight " << i;
        EXPECT_EQ(std::isnan(found[i]), std::isnan(expected[i])) << "pixel " << pixel << ", weight " << i;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Threads, DepthwiseTest, testing::Values(1, 2, 5));
INSTANTIATE_TEST_SUITE_P(Threads, LargeDepthwiseTest, testing::Values(5));

}  // namespace
}  // namespace belfry::ops
