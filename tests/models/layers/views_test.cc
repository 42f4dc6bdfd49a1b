#include "models/layers/views.h"

#include "tests/models/model_test.h"

namespace belfry::models {
namespace {

using ::testing::HasSubstr;

using ImageViews = ModelTest;

constexpr int64_t kHeight = 4, kWidth = 5, kChannels = 2;

// The place that a pixel in front of or behind the image shows.
int64_t Inside(int64_t at, int64_t extent) { return at < 0 ? -at : at >= extent ? 2 * extent - 2 - at : at; }

// "Logits" that are not linear in the image, and depend on where a value is.
Output Weighed(const Scope& scope, Output x) {
  std::vector<float> weights;
  for (int64_t i = 0; i < kHeight * kWidth * kChannels * 3; ++i) {
    weights.push_back(static_cast<float>((7 * i) % 11) / 11 - 0.4f);
  }
  const int64_t values = kHeight * kWidth * kChannels;
  const Output flat = ops::Reshape(scope, ops::Square(scope, x), {-1, values});
  return ops::MatMul(scope, flat, ops::Const(scope, Tensor::Of<float>(absl::MakeConstSpan(weights), {values, 3})));
}

std::vector<double> WeighedInDouble(const std::vector<double>& image) {
  std::vector<double> logits(3, 0);
  for (int64_t i = 0; i < kHeight * kWidth * kChannels * 3; ++i) {
    logits[i % 3] += image[i / 3] * image[i / 3] * (static_cast<double>((7 * i) % 11) / 11 - 0.4);
  }
  return logits;
}

TEST_F(ImageViews, AreAveragedAsInALoop) {
  const Output images = Images(kHeight, kWidth, kChannels);
  const auto logits = [&](Output x) { return Weighed(scope_, x); };
  std::vector<Output> averages;
  for (const int64_t views : {1, 2, 6}) averages.push_back(AverageOverViews(scope_, images, views, logits));
  ASSERT_TRUE(graph_.status().ok()) << graph_.status();
  Start();
  const Tensor batch = Random({3, kHeight, kWidth, kChannels});
  const std::vector<Tensor> results = Run({{images, batch}}, averages);
  const std::vector<double> all = batch.ToDoubles();
  const int64_t size = kHeight * kWidth * kChannels;
  // The view that shows pixel (y + shift, x + shift), mirrored or not, of image n.
  const auto view = [&](int64_t n, int64_t shift, bool mirror) {
    std::vector<double> image;
    for (int64_t i = 0; i < size; ++i) {
      const int64_t column = i / kChannels % kWidth;
      const int64_t y = Inside(i / kChannels / kWidth + shift, kHeight);
      const int64_t x = Inside((mirror ? kWidth - 1 - column : column) + shift, kWidth);
      image.push_back(all[n * size + (y * kWidth + x) * kChannels + i % kChannels]);
    }
    return WeighedInDouble(image);
  };
  for (int64_t n = 0; n < 3; ++n) {
    for (int c = 0; c < 3; ++c) {
      const double plain = view(n, 0, false)[c], mirrored = view(n, 0, true)[c];
      double moved = 0;
      for (const int64_t shift : {-1, 1}) moved += view(n, shift, false)[c] + view(n, shift, true)[c];
      EXPECT_NEAR(results[0].ToDoubles()[3 * n + c], plain, 1e-4);
      EXPECT_NEAR(results[1].ToDoubles()[3 * n + c], (plain + mirrored) / 2, 1e-4);
      EXPECT_NEAR(results[2].ToDoubles()[3 * n + c], (plain + mirrored) / 4 + moved / 8, 1e-4);
    }
  }
}

TEST_F(ImageViews, OtherNumbersAreErrors) {
  const auto same = [](Output x) { return x; };
  EXPECT_FALSE(AverageOverViews(scope_, Images(4, 4, 1), 3, same).valid());
  EXPECT_THAT(graph_.status().message(), HasSubstr("has 3 views; expected 1, 2 or 6"));
}

TEST_F(ImageViews, ImagesOfOnePixelAreErrors) {
  EXPECT_FALSE(AverageOverViews(scope_, Images(4, 1, 1), 6, [](Output x) { return x; }).valid());
  EXPECT_THAT(graph_.status().message(), HasSubstr("at least 2 x 2 pixels"));
}

}  // namespace
}  // namespace belfry::models
