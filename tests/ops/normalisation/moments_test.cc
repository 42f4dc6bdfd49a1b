// Moments of channels whose first rows, from which the sums are centered, are unlike the others.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>

#include "absl/strings/str_cat.h"
#include "ops/array.h"
#include "ops/nn.h"
#include "tests/framework/runtime/session_fixture.h"
#include "tests/main/seed.h"

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
    const absl::Status status = step->Run({values});
    ASSERT_TRUE(status.ok()) << status;
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

}  // namespace
}  // namespace belfry
