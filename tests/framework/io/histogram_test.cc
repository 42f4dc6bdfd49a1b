#include "framework/io/histogram.h"

#include <cmath>
#include <limits>
#include <numeric>

#include "framework/base/half.h"
#include "tests/framework/io/event_testing.h"
#include "tests/framework/io/io_testing.h"

namespace belfry::io {
namespace {

// The bucket found by a linear search: the first limit that is greater, or the last bucket.
size_t SlowBucket(double value) {
  const absl::Span<const double> limits = Histogram::Limits();
  for (size_t i = 0; i < limits.size(); ++i) {
    if (value < limits[i]) return i;
  }
  return limits.size() - 1;
}

// The bucket of a histogram's only value.
size_t BucketOf(double value) {
  Histogram histogram;
  histogram.Add(value);
  for (size_t i = 0; i < histogram.buckets().size(); ++i) {
    if (histogram.buckets()[i] == 1) return i;
  }
  return histogram.buckets().size();
}

TEST(Histogram, LimitsAreTensorFlows) {
  std::vector<double> positive;
  for (double v = 1e-12; v < 1e20; v *= 1.1) positive.push_back(v);
  positive.push_back(std::numeric_limits<double>::max());
  const absl::Span<const double> limits = Histogram::Limits();
  ASSERT_EQ(limits.size(), 2 * positive.size() + 1);
  for (size_t i = 0; i < positive.size(); ++i) {
    EXPECT_EQ(limits[positive.size() + 1 + i], positive[i]);
    EXPECT_EQ(limits[positive.size() - 1 - i], -positive[i]);
  }
  EXPECT_EQ(limits[positive.size()], 0);
}

TEST(Histogram, EveryLimitAndItsNeighbours) {
  const double infinity = std::numeric_limits<double>::infinity();
  for (const double limit : Histogram::Limits()) {
    for (const double value : {std::nextafter(limit, -infinity), limit, std::nextafter(limit, infinity)}) {
      if (std::isfinite(value)) {
        EXPECT_EQ(BucketOf(value), SlowBucket(value)) << value;
      }
    }
  }
}

TEST(Histogram, ValuesOfAllSizes) {
  FreshRandom random;
  for (int i = 0; i < 20'000; ++i) {
    const double value = std::exp(random.Uniform(-60, 80)) * (random.Between(0, 1) == 0 ? -1 : 1);
    ASSERT_EQ(BucketOf(value), SlowBucket(value)) << value;
  }
  for (const double value : {0.0, -0.0, 5e-324, -5e-324, 1e300, -1e300}) EXPECT_EQ(BucketOf(value), SlowBucket(value));
}

TEST(Histogram, Statistics) {
  Histogram histogram(Tensor::Of<float>({3, -1, 2.5f, 0}));
  EXPECT_EQ(histogram.count(), 4);
  EXPECT_EQ(histogram.min(), -1);
  EXPECT_EQ(histogram.max(), 3);
  EXPECT_EQ(histogram.sum(), 4.5);
  EXPECT_EQ(histogram.sum_squares(), 16.25);
  EXPECT_EQ(histogram.not_finite(), 0);
}

TEST(Histogram, WhatIsNotFiniteIsCountedApart) {
  const float infinity = std::numeric_limits<float>::infinity();
  const Histogram histogram(Tensor::Of<float>({NAN, 2, infinity, -infinity, 7}));
  EXPECT_EQ(histogram.count(), 2);
  EXPECT_EQ(histogram.not_finite(), 3);
  EXPECT_EQ(histogram.min(), 2);
  EXPECT_EQ(histogram.max(), 7);
  EXPECT_EQ(histogram.sum(), 9);
  EXPECT_EQ(std::accumulate(histogram.buckets().begin(), histogram.buckets().end(), int64_t{0}), 2);
}

TEST(Histogram, EmptyIsAllZero) {
  const Histogram histogram{Tensor(DType::kFloat32, {0, 3})};
  EXPECT_EQ(histogram.count(), 0);
  EXPECT_EQ(histogram.min(), 0);
  EXPECT_EQ(histogram.max(), 0);
}

TEST(Histogram, EveryDType) {
  const auto sum = [](const Tensor& tensor) { return Histogram(tensor).sum(); };
  EXPECT_EQ(sum(Tensor::Of<double>({1, 2, 4})), 7);
  EXPECT_EQ(sum(Tensor::Of<Half>({Half(1), Half(2)})), 3);
  EXPECT_EQ(sum(Tensor::Of<BFloat16>({BFloat16(1), BFloat16(2)})), 3);
  EXPECT_EQ(sum(Tensor::Of<int32_t>({-5, 2})), -3);
  EXPECT_EQ(sum(Tensor::Of<int64_t>({-5, 2})), -3);
  EXPECT_EQ(sum(Tensor::Of<uint8_t>({255, 255})), 510);
  EXPECT_EQ(sum(Tensor::Of<bool>({true, false, true})), 2);
}

TEST(Histogram, MergedIsAsIfAddedTogether) {
  FreshRandom random;
  Histogram all, parts[3];
  for (int i = 0; i < 300; ++i) {
    const double value = i % 50 == 0 ? NAN : random.Uniform(-10, 10);
    all.Add(value);
    parts[random.Between(0, 1)].Add(value);  // the third stays empty
  }
  Histogram merged;
  for (const Histogram& part : parts) merged.Merge(part);
  EXPECT_EQ(merged.count(), all.count());
  EXPECT_EQ(merged.not_finite(), all.not_finite());
  EXPECT_EQ(merged.min(), all.min());
  EXPECT_EQ(merged.max(), all.max());
  EXPECT_NEAR(merged.sum(), all.sum(), 1e-9);
  EXPECT_NEAR(merged.sum_squares(), all.sum_squares(), 1e-9);
  EXPECT_EQ(merged.buckets(), all.buckets());
}

}  // namespace
}  // namespace belfry::io
