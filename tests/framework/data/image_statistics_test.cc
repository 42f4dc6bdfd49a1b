#include "framework/data/image_statistics.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "framework/data/in_memory.h"
#include "tests/framework/io/io_testing.h"

namespace belfry::data {
namespace {

using absl::StatusCode;

constexpr int64_t kImages = 40, kHeight = 9, kWidth = 7;

// Images [kHeight, kWidth, channels] whose neighbours are alike, as those of pictures are.
std::unique_ptr<Dataset> SmoothImages(FreshRandom& random, int64_t channels) {
  Tensor images(DType::kUInt8, {kImages, kHeight, kWidth, channels});
  const std::string noise = random.Bytes(images.bytes());
  double last = 128;
  for (int64_t i = 0; i < images.elements(); ++i) {
    last = 0.8 * last + 0.2 * static_cast<unsigned char>(noise[i]);
    images.data<uint8_t>()[i] = static_cast<uint8_t>(last);
  }
  return FromTensors({{"image", images}}).value();
}

// The second moments of the responses of all filters to all patches of the first images.
std::vector<double> SecondMoments(const Dataset& dataset, const ImagePolicy& policy, const Tensor& filters,
                                  int64_t images, int64_t edge, int64_t channels) {
  const int64_t count = filters.shape()[3];
  std::vector<double> moments(count * count, 0);
  Augmenter augmenter = Augmenter::Create(dataset.fields()[0], policy, 0).value();
  std::vector<float> image(kHeight * kWidth * channels);
  std::vector<uint8_t> bytes(image.size());
  int64_t patches = 0;
  for (int64_t n = 0; n < images; ++n) {
    std::byte* const place = reinterpret_cast<std::byte*>(bytes.data());
    EXPECT_TRUE(dataset.Read(n, Example({&place, 1})).ok());
    augmenter.Apply(bytes.data(), 0, 0, image.data());
    for (int64_t y = 0; y + edge <= kHeight; ++y) {
      for (int64_t x = 0; x + edge <= kWidth; ++x, ++patches) {
        std::vector<double> response(count, 0);
        for (int64_t i = 0; i < edge * edge * channels; ++i) {
          const int64_t row = i / channels / edge, column = i / channels % edge, c = i % channels;
          const double value = image[((y + row) * kWidth + x + column) * channels + c];
          for (int64_t k = 0; k < count; ++k) response[k] += value * filters.data<float>()[i * count + k];
        }
        for (int64_t i = 0; i < count * count; ++i) moments[i] += response[i / count] * response[i % count];
      }
    }
  }
  for (double& moment : moments) moment /= static_cast<double>(patches);
  return moments;
}

TEST(WhiteningFilters, MakeSecondMomentsTheIdentity) {
  FreshRandom random;
  for (const int64_t channels : {1, 3}) {
    for (const int64_t edge : {1, 2, 3}) {
      const auto dataset = SmoothImages(random, channels);
      const ImagePolicy policy = ResNetEvaluation(ComputeChannelStatistics(*dataset).value());
      const WhiteningOptions options = {.edge = edge, .examples = 25, .epsilon = 0};
      ASSERT_OK_AND_ASSIGN(const auto filters, WhiteningFilters(*dataset, policy, "image", options));
      const int64_t n = edge * edge * channels;
      ASSERT_EQ(filters.shape(), Shape({edge, edge, channels, 2 * n}));
      const std::vector<double> moments = SecondMoments(*dataset, policy, filters, 25, edge, channels);
      for (int64_t i = 0; i < 2 * n; ++i) {
        for (int64_t j = 0; j < 2 * n; ++j) {
          const double expected = i == j ? 1 : std::abs(i - j) == n ? -1 : 0;
          EXPECT_NEAR(moments[i * 2 * n + j], expected, 1e-4) << i << ", " << j;
        }
      }
    }
  }
}

// With v^T M v = l of a unit vector v, the response of v / sqrt(l + epsilon) has the second moment l / (l + epsilon).
TEST(WhiteningFilters, EpsilonDampsSmallEigenvalues) {
  FreshRandom random;
  const auto dataset = SmoothImages(random, 3);
  const ImagePolicy policy = ResNetEvaluation(ComputeChannelStatistics(*dataset).value());
  const Tensor filters = WhiteningFilters(*dataset, policy, "image", {.epsilon = 0.1}).value();
  const std::vector<double> moments = SecondMoments(*dataset, policy, filters, kImages, 2, 3);
  double above = 1;
  for (int64_t k = 0; k < 12; ++k) {
    double square = 0, largest = 0;
    for (int64_t i = 0; i < 12; ++i) {
      const double value = filters.data<float>()[i * 24 + k];
      EXPECT_EQ(filters.data<float>()[i * 24 + 12 + k], -value);
      square += value * value;
      if (std::abs(value) > std::abs(largest)) largest = value;
    }
    const double eigenvalue = 1 / square - 0.1, moment = moments[k * 24 + k];
    EXPECT_GT(largest, 0);
    EXPECT_NEAR(moment, eigenvalue / (eigenvalue + 0.1), 1e-4) << k;
    EXPECT_LE(moment, above + 1e-6) << "descending";
    above = moment;
  }
}

TEST(WhiteningFilters, RefusesWhatDoesNotFit) {
  FreshRandom random;
  const auto dataset = SmoothImages(random, 3);
  const auto error = [&](const WhiteningOptions& options) {
    return WhiteningFilters(*dataset, {}, "image", options).status();
  };
  ExpectError(error({.edge = 8}), StatusCode::kInvalidArgument, "patches of 8x8", "[9,7,3]");
  ExpectError(error({.edge = 0}), StatusCode::kInvalidArgument, "patches of 0x0");
  ExpectError(error({.examples = 0}), StatusCode::kInvalidArgument, "of 0 images");
  EXPECT_FALSE(WhiteningFilters(*dataset, {}, "picture").ok());
}

TEST(MeanImage, MatchesTheDefinition) {
  FreshRandom random;
  const std::string bytes = random.Bytes(3 * 4 * 5 * 2);
  Tensor images(DType::kUInt8, {3, 4, 5, 2});
  std::copy(bytes.begin(), bytes.end(), images.data<uint8_t>());
  const auto dataset = FromTensors({{"image", images}}).value();
  const std::vector<float> mean = ComputeMeanImage(*dataset).value();
  ASSERT_EQ(mean.size(), 40u);
  for (int64_t i = 0; i < 40; ++i) {
    const double sum = images.data<uint8_t>()[i] + images.data<uint8_t>()[40 + i] + images.data<uint8_t>()[80 + i];
    EXPECT_FLOAT_EQ(mean[i], static_cast<float>(sum / 3));
  }
}

TEST(ImageStatistics, NeedImages) {
  const auto numbers = FromTensors({{"image", Tensor(DType::kFloat32, {2, 3})}}).value();
  ExpectError(ComputeMeanImage(*numbers).status(), StatusCode::kInvalidArgument, "at least one image");
  ExpectError(ComputeChannelStatistics(*numbers).status(), StatusCode::kInvalidArgument, "at least one image");
}

}  // namespace
}  // namespace belfry::data
