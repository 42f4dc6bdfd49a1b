// Direct convolutions in float32 beside plain loops in float64.
#include <algorithm>
#include <vector>

#include "framework/base/shape.h"
#include "ops/convolution/engines/direct_kernel_impl.h"
#include "ops/onednn/primitive.h"
#include "ops/simd/vector_impl.h"
#include "ops/winograd/winograd_impl.h"
#include "tests/ops/convolution/loops_fixture.h"

namespace belfry::ops {
namespace {

using winograd::Pass;

// A convolution of [n, h, w, c] with a filter [r, s, c, k].
ConvolutionGeometry Dense(const Shape& x, int64_t k, int64_t r, int64_t s, Pads pad = {}) {
  return Padded({.n = x[0], .h = x[1], .w = x[2], .c = x[3], .k = k, .r = r, .s = s}, pad);
}

class DirectTest : public LoopsTest {
 protected:
  void Compare(const ConvolutionGeometry& p) {
    SCOPED_TRACE(p.DebugString());
    const int64_t xs = p.n * p.h * p.w * p.c, ys = p.n * p.out_h() * p.out_w() * p.k, filters = p.r * p.s * p.c * p.k;
    const std::vector<float> x = Normal(xs), filter = Normal(filters), dy = Normal(ys), bias = Normal(p.k);
    std::vector<double> dfilter(static_cast<size_t>(filters)), y(static_cast<size_t>(ys));
    Conv2DBackpropFilterLoops(p, Doubles(x).data(), Doubles(dy).data(), dfilter.data());
    const auto gradient = [&](float* to) {
      const DirectFilterGradient gradient(p);
      Floats workspace(gradient.workspace_floats());
      gradient.Run(x.data(), dy.data(), to, workspace.data());
    };
    ExpectNear(Result(filters, gradient), dfilter, p.n * p.out_h() * p.out_w());

    if (p.k % simd::Vector<float>::kLanes != 0) return;
    Conv2DForwardLoops(p, Doubles(x).data(), Doubles(filter).data(), y.data());
    const auto forward = [&](const float* bias, bool relu) {
      return Result(ys, [&](float* to) {
        const DirectForward convolution(p);
        Floats packed(convolution.filter_floats()), workspace(convolution.workspace_floats());
        convolution.Pack(filter.data(), packed.data());
        convolution.Run(x.data(), packed.data(), bias, relu, to, workspace.data());
      });
    };
    ExpectNear(forward(nullptr, false), y, p.r * p.s * p.c);
    for (size_t i = 0; i < y.size(); ++i) y[i] = std::max(y[i] + bias[i % static_cast<size_t>(p.k)], 0.0);
    ExpectNear(forward(bias.data(), true), y, p.r * p.s * p.c);
  }
};

TEST_P(DirectTest, StridesAndPadding) {
  Compare(Strided(Dense({2, 7, 9, 17}, 16, 3, 3, {1, 1, 1, 1}), 2, 2));
  Compare(Strided(Dense({3, 6, 5, 5}, 48, 1, 1), 2, 3));
  Compare(Strided(Dense({2, 5, 8, 20}, 19, 2, 5, {0, 1, 4, 0}), 1, 2));
}

TEST_P(DirectTest, Dilation) { Compare(Dilated(Strided(Dense({1, 11, 12, 4}, 16, 3, 3, {2, 0, 3, 3}), 2, 1), 3, 2)); }

// Taps that never meet the image, and images smaller than the filter.
TEST_P(DirectTest, SmallImages) {
  Compare(Dense({4, 1, 1, 32}, 16, 3, 3, {1, 1, 1, 1}));
  Compare(Dense({70, 3, 3, 8}, 32, 3, 3, {1, 1, 1, 1}));
  Compare(Strided(Dense({2, 2, 2, 3}, 16, 5, 5, {5, 4, 5, 4}), 3, 3));
}

// Lines of more outputs than are multiplied together, and more channels than a panel has.
TEST_P(DirectTest, LongLinesAndManyChannels) {
  Compare(Dense({1, 2, 523, 3}, 16, 2, 3, {0, 0, 2, 0}));
  Compare(Dense({2, 3, 3, 530}, 144, 1, 1));
}

INSTANTIATE_TEST_SUITE_P(Threads, DirectTest, testing::Values(1, 2, 5));

}  // namespace
}  // namespace belfry::ops
