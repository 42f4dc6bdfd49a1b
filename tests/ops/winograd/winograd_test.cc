#include "ops/winograd/winograd_impl.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <memory>
#include <random>
#include <type_traits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/alignment.h"
#include "framework/base/half.h"
#include "framework/base/parallel.h"
#include "tests/main/testing.h"
#include "tests/ops/convolution/geometry.h"

namespace belfry::ops::winograd {
namespace {

// The largest error allowed, relative to the root mean square of the result, in tiles of 4 and in larger ones (a
// quarter of the distance between bfloat16 numbers); and the rounding error of stored elements.
constexpr double kTolerance = 1e-4, kToleranceOfLargeTiles = 1e-3;
template <class T>
constexpr double kRounding = std::is_same_v<T, float> ? 0x1p-24 : 0x1p-8;

ConvolutionGeometry Shape(int64_t n, int64_t h, int64_t w, int64_t c, int64_t k, int64_t r, int64_t before,
                          int64_t after) {
  return Padded({.n = n, .h = h, .w = w, .c = c, .k = k, .r = r, .s = r}, {before, after, after, before});
}

// Written channels are multiples of 16, so that all passes are supported with vectors of 8 and of 16, but for those of
// the gradient of x.
std::vector<ConvolutionGeometry> Shapes() {
  return {Shape(1, 4, 4, 16, 16, 3, 1, 1),    // one whole tile
          Shape(1, 1, 1, 16, 16, 3, 1, 1),    // one pixel
          Shape(3, 9, 7, 16, 32, 3, 1, 1),    // tiles cross the border
          Shape(2, 8, 8, 3, 16, 3, 1, 1),     // few channels
          Shape(2, 11, 6, 48, 16, 5, 2, 2),   // channels fill several vectors
          Shape(2, 12, 12, 16, 80, 5, 2, 2),  // more vectors than a block of products
          Shape(5, 24, 24, 3, 64, 5, 2, 2),   // several blocks per thread
          Shape(3, 11, 6, 1, 48, 5, 2, 2),    // one channel
          Shape(1, 5, 5, 2, 16, 3, 1, 1),     // two, one image
          Shape(2, 10, 13, 4, 32, 5, 0, 1),   // four
          Shape(2, 7, 8, 17, 16, 3, 0, 0),    // no padding; dx: a lane of a second vector
          Shape(2, 9, 6, 43, 32, 5, 2, 2),    // dx: most of a last vector
          Shape(90, 2, 2, 96, 80, 3, 1, 1),   // so many sums that threads share them, over several blocks
          Shape(2, 5, 6, 80, 144, 3, 1, 1),   // so many that channels are divided, into uneven parts, with AVX2
          Shape(1, 5, 6, 208, 240, 3, 1, 1),  // the same with AVX-512
          Shape(2, 6, 9, 16, 16, 5, 0, 1)};   // uneven padding
}

// A buffer between guard elements, which are checked when it is destroyed.
template <class T>
class Buffer {
 public:
  explicit Buffer(size_t size) : size_(size) {
    const size_t bytes = AlignUp((size + 2 * kGuard) * sizeof(T));
    memory_.reset(static_cast<T*>(std::aligned_alloc(kAlignment, bytes)));
    std::fill_n(memory_.get(), size + 2 * kGuard, kUntouched);
  }
  Buffer(Buffer&&) = default;
  ~Buffer() {
    for (size_t i = 0; memory_ != nullptr && i < kGuard; ++i) {
      EXPECT_EQ(memory_.get()[i], kUntouched);
      EXPECT_EQ(memory_.get()[kGuard + size_ + i], kUntouched);
    }
  }
  T* data() const { return memory_.get() + kGuard; }
  double operator[](int64_t i) const { return static_cast<double>(data()[i]); }
  std::vector<T> values() const { return {data(), data() + size_}; }

 private:
  static constexpr size_t kGuard = 64;
  static inline const T kUntouched = T(-123456.0f);
  struct Free {
    void operator()(T* memory) const { std::free(memory); }
  };
  size_t size_;
  std::unique_ptr<T, Free> memory_;
};

template <class T>
Buffer<T> RandomBuffer(int64_t size) {
  std::normal_distribution<float> normal;
  Buffer<T> buffer(size);
  for (int64_t i = 0; i < size; ++i) buffer.data()[i] = T(normal(TestRandom()));
  return buffer;
}

// Calls use(x index, weight index, y index) for every multiplication of a convolution.
template <class Use>
void ForEachTap(const ConvolutionGeometry& s, const Use& use) {
  for (int64_t n = 0; n < s.n; ++n)
    for (int64_t oh = 0; oh < s.out_h(); ++oh)
      for (int64_t ow = 0; ow < s.out_w(); ++ow)
        for (int64_t r = 0; r < s.r; ++r)
          for (int64_t q = 0; q < s.s; ++q) {
            const int64_t h = oh - s.pad_top + r, w = ow - s.pad_left + q;
            if (h < 0 || h >= s.h || w < 0 || w >= s.w) continue;
            for (int64_t i = 0; i < s.c; ++i)
              for (int64_t k = 0; k < s.k; ++k)
                use(((n * s.h + h) * s.w + w) * s.c + i, ((r * s.s + q) * s.c + i) * s.k + k,
                    ((n * s.out_h() + oh) * s.out_w() + ow) * s.k + k);
          }
}

template <class T>
void ExpectClose(const Buffer<T>& got, const std::vector<double>& want, double tolerance) {
  double squares = 0;
  for (double x : want) squares += x * x;
  const double scale = std::sqrt(squares / static_cast<double>(want.size()));
  for (size_t i = 0; i < want.size(); ++i) {
    ASSERT_NEAR(got[i], want[i], tolerance * scale + kRounding<T> * std::abs(want[i]))
        << "element " << i << " of " << want.size();
  }
}

// A workspace full of NaN.
template <class T>
Buffer<float> Workspace(const Convolution<T>& convolution) {
  Buffer<float> workspace(convolution.workspace_bytes() / sizeof(float));
  std::fill_n(workspace.data(), convolution.workspace_bytes() / sizeof(float), std::nanf(""));
  return workspace;
}

// One convolution of random data.
template <class T>
struct Problem {
  ConvolutionGeometry shape;
  int64_t x_size = shape.n * shape.h * shape.w * shape.c, y_size = shape.n * shape.out_h() * shape.out_w() * shape.k,
          w_size = shape.r * shape.s * shape.c * shape.k;
  Buffer<T> x = RandomBuffer<T>(x_size), w = RandomBuffer<T>(w_size), dy = RandomBuffer<T>(y_size),
            bias = RandomBuffer<T>(shape.k);

  explicit Problem(ConvolutionGeometry of) : shape(of) { shape.dtype = kDTypeOf<T>; }

  // Tests a pass in tiles of each size.
  void Test(Pass pass) const {
    if (!Computes(shape, pass)) GTEST_SKIP() << "not for these channels, or this processor";
    for (const int tile : TilesOf(shape, pass)) {
      SCOPED_TRACE(absl::StrCat("tiles of ", tile));
      const Convolution<T> convolution(shape, pass, tile);
      const double tolerance = tile == 4 ? kTolerance : kToleranceOfLargeTiles;
      if (pass == Pass::kForward) TestForward(convolution, tolerance);
      if (pass == Pass::kBackwardData) TestBackwardData(convolution, tolerance);
      if (pass == Pass::kBackwardWeights) TestBackwardWeights(convolution, tolerance);
    }
  }

  void TestForward(const Convolution<T>& convolution, double tolerance) const {
    const Buffer<float> workspace = Workspace(convolution);
    std::vector<double> plain(y_size, 0), with_bias(y_size), with_relu(y_size);
    ForEachTap(shape, [&](int64_t i, int64_t j, int64_t k) { plain[k] += x[i] * w[j]; });
    for (int64_t i = 0; i < y_size; ++i) {
      with_bias[i] = plain[i] + bias[i % shape.k];
      with_relu[i] = std::max(0.0, with_bias[i]);
    }
    const Buffer<T> y(y_size);
    convolution.Forward(x.data(), w.data(), nullptr, false, y.data(), workspace.data());
    ExpectClose(y, plain, tolerance);
    convolution.Forward(x.data(), w.data(), bias.data(), false, y.data(), workspace.data());
    ExpectClose(y, with_bias, tolerance);
    const std::vector<T> first = y.values();
    convolution.Forward(x.data(), w.data(), bias.data(), true, y.data(), workspace.data());
    ExpectClose(y, with_relu, tolerance);
    convolution.Forward(x.data(), w.data(), bias.data(), false, y.data(), workspace.data());
    EXPECT_EQ(y.values(), first);
  }

  void TestBackwardData(const Convolution<T>& convolution, double tolerance) const {
    const Buffer<float> workspace = Workspace(convolution);
    std::vector<double> want(x_size, 0);
    ForEachTap(shape, [&](int64_t i, int64_t j, int64_t k) { want[i] += dy[k] * w[j]; });
    const Buffer<T> dx(x_size);
    convolution.BackwardData(dy.data(), w.data(), nullptr, nullptr, dx.data(), workspace.data());
    ExpectClose(dx, want, tolerance);
    const std::vector<T> first = dx.values();
    const Buffer<T> mask = RandomBuffer<T>(x_size), sum = RandomBuffer<T>(x_size);
    std::vector<double> masked(x_size), masked_sum(x_size);
    for (int64_t i = 0; i < x_size; ++i) {
      masked[i] = mask[i] > 0 ? want[i] : 0;
      masked_sum[i] = mask[i] > 0 ? want[i] + sum[i] : 0;
    }
    convolution.BackwardData(dy.data(), w.data(), nullptr, mask.data(), dx.data(), workspace.data());
    ExpectClose(dx, masked, tolerance);
    std::vector<double> plain_sum(x_size);
    for (int64_t i = 0; i < x_size; ++i) plain_sum[i] = want[i] + sum[i];
    convolution.BackwardData(dy.data(), w.data(), sum.data(), nullptr, dx.data(), workspace.data());
    ExpectClose(dx, plain_sum, tolerance);
    convolution.BackwardData(dy.data(), w.data(), sum.data(), mask.data(), sum.data(), workspace.data());
    ExpectClose(sum, masked_sum, tolerance);
    convolution.BackwardData(dy.data(), w.data(), nullptr, mask.data(), mask.data(), workspace.data());
    ExpectClose(mask, masked, tolerance);
    convolution.BackwardData(dy.data(), w.data(), nullptr, nullptr, dx.data(), workspace.data());
    EXPECT_EQ(dx.values(), first);
  }

  void TestBackwardWeights(const Convolution<T>& convolution, double tolerance) const {
    const Buffer<float> workspace = Workspace(convolution);
    std::vector<double> want(w_size, 0), want_bias(shape.k, 0);
    ForEachTap(shape, [&](int64_t i, int64_t j, int64_t k) { want[j] += dy[k] * x[i]; });
    for (int64_t i = 0; i < y_size; ++i) want_bias[i % shape.k] += dy[i];
    const Buffer<T> dw(w_size), dbias(shape.k);
    convolution.BackwardWeights(x.data(), dy.data(), dw.data(), dbias.data(), workspace.data());
    ExpectClose(dw, want, tolerance);
    ExpectClose(dbias, want_bias, tolerance);
    const std::vector<T> first = dw.values();
    convolution.BackwardWeights(x.data(), dy.data(), dw.data(), nullptr, workspace.data());
    EXPECT_EQ(dw.values(), first);
  }
};

class Winograd : public ::testing::TestWithParam<std::tuple<size_t, int>> {
 protected:
  Winograd() : threads_(std::get<1>(GetParam())) {}

  const ConvolutionGeometry shape_ = Shapes()[std::get<0>(GetParam())];

 private:
  ScopedParallelThreads threads_;
};

TEST_P(Winograd, Forward) { Problem<float>(shape_).Test(Pass::kForward); }
TEST_P(Winograd, BackwardData) { Problem<float>(shape_).Test(Pass::kBackwardData); }
TEST_P(Winograd, BackwardWeights) { Problem<float>(shape_).Test(Pass::kBackwardWeights); }
TEST_P(Winograd, ForwardOfBFloat16) { Problem<BFloat16>(shape_).Test(Pass::kForward); }
TEST_P(Winograd, BackwardDataOfBFloat16) { Problem<BFloat16>(shape_).Test(Pass::kBackwardData); }
TEST_P(Winograd, BackwardWeightsOfBFloat16) { Problem<BFloat16>(shape_).Test(Pass::kBackwardWeights); }

INSTANTIATE_TEST_SUITE_P(All, Winograd,
                         ::testing::Combine(::testing::Range<size_t>(0, Shapes().size()), ::testing::Values(1, 3)));

TEST(WinogradShapes, OthersAreLeftToOthers) {
  const ConvolutionGeometry good = Shape(128, 12, 12, 64, 64, 5, 2, 2);
  if (!Computes(good, Pass::kForward)) GTEST_SKIP() << "compiled for a processor without AVX2";
  EXPECT_TRUE(IsBest(good, Pass::kForward));
  EXPECT_TRUE(IsBest(good, Pass::kBackwardData));
  EXPECT_TRUE(IsBest(good, Pass::kBackwardWeights));
  const ConvolutionGeometry first = Shape(128, 24, 24, 3, 64, 5, 2, 2);
  EXPECT_TRUE(IsBest(first, Pass::kForward));
  EXPECT_TRUE(IsBest(first, Pass::kBackwardWeights));
  const auto refused = [&](auto change) {
    ConvolutionGeometry shape = good;
    change(shape);
    return !Computes(shape, Pass::kForward);
  };
  EXPECT_TRUE(refused([](ConvolutionGeometry& s) { s.stride_w = 2; }));
  EXPECT_TRUE(refused([](ConvolutionGeometry& s) { s.dilation_h = 2; }));
  EXPECT_TRUE(refused([](ConvolutionGeometry& s) { s.groups = 2; }));
  EXPECT_TRUE(refused([](ConvolutionGeometry& s) { s.r = s.s = 7; }));
  EXPECT_TRUE(refused([](ConvolutionGeometry& s) { s.s = 3; }));
  EXPECT_TRUE(refused([](ConvolutionGeometry& s) { s.k = 10; }));
  EXPECT_TRUE(refused([](ConvolutionGeometry& s) { s.dtype = DType::kFloat64; }));
  // The padding exceeds the filter, so the gradient would start inside dy.
  EXPECT_FALSE(Computes(Shape(1, 8, 8, 16, 16, 3, 3, 3), Pass::kBackwardData));
  EXPECT_FALSE(IsBest(Shape(128, 32, 32, 3, 16, 3, 1, 1), Pass::kForward));
}

template <class T>
void TestNotANumber() {
  ConvolutionGeometry shape = Shape(1, 8, 8, 16, 16, 3, 1, 1);
  shape.dtype = kDTypeOf<T>;
  if (!Computes(shape, Pass::kForward)) GTEST_SKIP() << "compiled for a processor without AVX2";
  for (float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    const Convolution<T> convolution(shape, Pass::kForward);
    const Buffer<T> x = RandomBuffer<T>(8 * 8 * 16), w = RandomBuffer<T>(9 * 16 * 16), y(8 * 8 * 16);
    const Buffer<float> workspace = Workspace(convolution);
    x.data()[0] = T(bad);
    // The ReLU correctly turns minus infinity into 0, so it is only applied with NaN.
    const bool relu = std::isnan(bad);
    convolution.Forward(x.data(), w.data(), nullptr, relu, y.data(), workspace.data());
    EXPECT_FALSE(std::isfinite(y[0]));
    EXPECT_TRUE(std::isfinite(y[8 * 8 * 16 - 1]));
  }
}

TEST(WinogradNumbers, NotANumberReachesTheResult) {
  TestNotANumber<float>();
  TestNotANumber<BFloat16>();
}

}  // namespace
}  // namespace belfry::ops::winograd
