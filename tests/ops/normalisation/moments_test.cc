// Moments of channels whose first rows, from which the sums are centered, are unlike the others, and gradients with
// infinities.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/graph/gradients.h"
#include "ops/array.h"
#include "ops/nn.h"
#include "tests/framework/runtime/session_fixture.h"

namespace belfry {
namespace {

class MomentsTest : public SessionFixture {
 protected:
  // Elements are `level(row)` and normal noise of the given deviation. Compares with sums in double.
  void Compare(const Shape& shape, double deviation, const std::function<double(int64_t row)>& level,
               double tolerance) {
    SCOPED_TRACE(shape.ToString());
    Open("cpu:1");
    const Output x = ops::Placeholder(root_, DType::kFloat32, shape);
    const auto moments = ops::ChannelMoments(root_, x);
    const int64_t rows = shape[0], channels = shape[1];
    Tensor values(DType::kFloat32, shape);
    std::normal_distribution<double> noise(0, deviation);
    for (int64_t i = 0; i < values.elements(); ++i) {
      values.data<float>()[i] = static_cast<float>(level(i / channels) + noise(TestRandom()));
    }
    const auto step = Prepare({{x, shape}}, {moments.mean, moments.variance});
    ASSERT_EQ(step->Run({values}), absl::OkStatus());
    for (int64_t c = 0; c < channels; ++c) {
      double mean = 0, variance = 0;
      for (int64_t r = 0; r < rows; ++r) mean += values.data<float>()[r * channels + c] / static_cast<double>(rows);
      for (int64_t r = 0; r < rows; ++r) {
        variance += std::pow(values.data<float>()[r * channels + c] - mean, 2) / static_cast<double>(rows);
      }
      // The mean is a float and the deviation its scale.
      EXPECT_NEAR(step->fetched(0).data<float>()[c], mean, 1e-7 * std::abs(mean) + 1e-5 * std::sqrt(variance)) << c;
      EXPECT_NEAR(step->fetched(1).data<float>()[c], variance, tolerance * variance) << c;
    }
  }
  void CompareAll(double deviation, const std::function<double(int64_t row)>& level, double tolerance) {
    for (const Shape& shape : {Shape({9000, 3}), Shape({3000, 64}), Shape({1500, 100}), Shape({700, 257})}) {
      Compare(shape, deviation, level, tolerance);
    }
  }
};

TEST_F(MomentsTest, OfAMeanOfManyDeviations) {
  CompareAll(
      1e-2, [](int64_t) { return 100.0; }, 1e-5);
}

TEST_F(MomentsTest, OfFirstRowsFarFromTheOthers) {
  CompareAll(
      1, [](int64_t row) { return row < 512 ? 1e3 : 0.0; }, 1e-4);
  CompareAll(
      1, [](int64_t row) { return row == 0 ? 1e4 : 0.0; }, 1e-3);
}

TEST_F(MomentsTest, OfRowsThatDrift) {
  CompareAll(
      1e-3, [](int64_t row) { return 0.1 * static_cast<double>(row); }, 1e-4);
}

// A channel with a NaN or an infinity has no moments; its neighbours, which share registers with it, have theirs.
TEST_F(MomentsTest, BesideChannelsThatAreNotFinite) {
  constexpr float kBad[] = {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                            -std::numeric_limits<float>::infinity()};
  for (const Shape& shape : {Shape({9000, 3}), Shape({3000, 64}), Shape({700, 257})}) {
    for (const int64_t bad_row : {int64_t{0}, int64_t{3}, shape[0] - 1}) {
      SCOPED_TRACE(absl::StrCat(shape.ToString(), ", row ", bad_row));
      Open("cpu:1");
      const Output x = ops::Placeholder(root_, DType::kFloat32, shape);
      const auto moments = ops::ChannelMoments(root_, x);
      const int64_t channels = shape[1], bad = static_cast<int64_t>(TestRandom()() % channels);
      Tensor values(DType::kFloat32, shape);
      for (int64_t i = 0; i < values.elements(); ++i) values.data<float>()[i] = static_cast<float>(i / channels % 2);
      values.data<float>()[bad_row * channels + bad] = kBad[TestRandom()() % 3];
      const auto step = Prepare({{x, shape}}, {moments.mean, moments.variance});
      ASSERT_EQ(step->Run({values}), absl::OkStatus());
      for (int64_t c = 0; c < channels; ++c) {
        const float mean = step->fetched(0).data<float>()[c], variance = step->fetched(1).data<float>()[c];
        if (c == bad) {
          EXPECT_FALSE(std::isfinite(mean)) << mean;
          EXPECT_TRUE(std::isnan(variance)) << variance;
        } else {
          EXPECT_NEAR(mean, 0.5, 1e-6) << c;
          EXPECT_NEAR(variance, 0.25, 1e-6) << c;
        }
      }
    }
  }
}

TEST_F(MomentsTest, AnInfiniteGradientWithFixedStatisticsIsThatOfItsElement) {
  for (const int64_t channels : {5, 16}) {
    SCOPED_TRACE(channels);
    Open("cpu:1");
    const Shape shape = {7, channels};
    const Output x = ops::Placeholder(root_, DType::kFloat32, shape), dy = ops::Placeholder(root_, x.dtype(), shape);
    const std::vector<float> ones(channels, 1);
    const Output one = ops::Const(root_, Tensor::Of<float>(ones, {channels}));
    const Output y = ops::BatchNormInference(root_, x, one, one, one, one, 0);
    ASSERT_OK_AND_ASSIGN(const auto gradients, Gradients(root_, {y}, {x}, {.grad_ys = {dy}}));
    Tensor values(DType::kFloat32, shape), slopes(DType::kFloat32, shape);
    std::fill_n(values.data<float>(), values.elements(), 2.0F);
    std::fill_n(slopes.data<float>(), slopes.elements(), 3.0F);
    const int64_t infinite = 2 * channels + 1;
    slopes.data<float>()[infinite] = std::numeric_limits<float>::infinity();
    values.data<float>()[infinite + channels] = std::numeric_limits<float>::infinity();
    const auto step = Prepare({{x, shape}, {dy, shape}}, {gradients[0]});
    ASSERT_EQ(step->Run({values, slopes}), absl::OkStatus());
    for (int64_t i = 0; i < values.elements(); ++i) {
      EXPECT_EQ(step->fetched(0).data<float>()[i], slopes.data<float>()[i]) << i;
    }
  }
}

}  // namespace
}  // namespace belfry
