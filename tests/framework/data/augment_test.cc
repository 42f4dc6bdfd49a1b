#include "framework/data/augment.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/tensor.h"
#include "framework/data/image_statistics.h"
#include "framework/data/in_memory.h"
#include "tests/framework/io/io_testing.h"

namespace belfry::data {
namespace {

using absl::StatusCode;

Field Images(int64_t height, int64_t width, int64_t channels) {
  return {"image", DType::kUInt8, {height, width, channels}};
}

std::vector<float> Apply(const Field& field, const ImagePolicy& policy, const std::string& image, int64_t epoch = 0,
                         int64_t index = 0, uint64_t seed = 1) {
  auto augmenter = ValueOf(Augmenter::Create(field, policy, seed));
  std::vector<float> output(augmenter.output_shape().elements());
  augmenter.Apply(reinterpret_cast<const uint8_t*>(image.data()), epoch, index, output.data());
  return output;
}

// Pixel (y, x) of channel c.
double At(const Field& field, const std::string& image, int64_t y, int64_t x, int64_t c) {
  return static_cast<uint8_t>(image[(y * field.shape[1] + x) * field.shape[2] + c]);
}

std::vector<double> Standardised(std::vector<double> values) {
  double mean = 0, square = 0;
  for (double v : values) mean += v / static_cast<double>(values.size());
  for (double v : values) square += (v - mean) * (v - mean) / static_cast<double>(values.size());
  const double divisor = std::max(std::sqrt(square), 1 / std::sqrt(static_cast<double>(values.size())));
  for (double& v : values) v = (v - mean) / divisor;
  return values;
}

void ExpectNear(const std::vector<float>& actual, const std::vector<double>& expected, double tolerance = 1e-5) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) ASSERT_NEAR(actual[i], expected[i], tolerance) << "at " << i;
}

TEST(Augmenter, DefaultPolicyOnlyConverts) {
  FreshRandom random;
  for (int64_t channels : {1, 2, 3, 4}) {
    const Field field = Images(5, 7, channels);
    const std::string image = random.Bytes(field.bytes());
    std::vector<double> expected;
    for (int64_t i = 0; i < 5 * 7 * channels; ++i) {
      expected.push_back(At(field, image, i / channels / 7, i / channels % 7, i % channels));
    }
    ExpectNear(Apply(field, {}, image), expected, 0);
  }
}

TEST(Augmenter, EvaluationStandardisesTheCentre) {
  FreshRandom random;
  const Field field = Images(32, 32, 3);
  const std::string image = random.Bytes(field.bytes());
  std::vector<double> centre;
  for (int64_t i = 0; i < 24 * 24 * 3; ++i) centre.push_back(At(field, image, 4 + i / 72, 4 + i / 3 % 24, i % 3));
  ExpectNear(Apply(field, TutorialEvaluation(), image), Standardised(centre));
}

TEST(Augmenter, ConstantImagesBecomeZero) {
  for (int value : {0, 7, 255}) {
    const Field field = Images(32, 32, 3);
    const std::string image(field.bytes(), static_cast<char>(value));
    for (float v : Apply(field, TutorialTraining(), image))
      ASSERT_NEAR(v, 0, 2e-3);  // 255 times 41 times the contrast, in float32
  }
  // One pixel differs by one grey level: the deviation is far below 1 / sqrt(values), which becomes the divisor.
  const Field field = Images(24, 24, 1);
  std::string image(field.bytes(), '\x05');
  image[100] = '\x06';
  const std::vector<float> output = Apply(field, TutorialEvaluation(), image);
  EXPECT_NEAR(output[100] - output[0], 24, 1e-3);
}

TEST(Augmenter, BrightnessAndContrastActAsTheirFormulas) {
  FreshRandom random;
  const Field field = Images(9, 6, 3);
  const std::string image = random.Bytes(field.bytes());
  const ImagePolicy policy = {.brightness = 63, .contrast_lower = 0.2f, .contrast_upper = 1.8f};
  const std::vector<float> output = Apply(field, policy, image, 2, 77, random.seed());
  double slopes[3], shifts[3];
  for (int64_t c = 0; c < 3; ++c) {
    double mean = 0, out_mean = 0, product = 0, square = 0;
    for (int64_t p = 0; p < 54; ++p) {
      mean += At(field, image, p / 6, p % 6, c) / 54;
      out_mean += output[3 * p + c] / 54;
    }
    for (int64_t p = 0; p < 54; ++p) {
      const double x = At(field, image, p / 6, p % 6, c) - mean;
      product += x * (output[3 * p + c] - out_mean);
      square += x * x;
    }
    slopes[c] = product / square;
    shifts[c] = out_mean - mean;
  }
  EXPECT_GE(slopes[0], 0.2 - 1e-5);
  EXPECT_LT(slopes[0], 1.8 + 1e-5);
  EXPECT_LE(std::abs(shifts[0]), 63 + 1e-3);
  for (int c = 1; c < 3; ++c) {
    EXPECT_NEAR(slopes[c], slopes[0], 1e-5);
    EXPECT_NEAR(shifts[c], shifts[0], 1e-3);
  }
  // With standardisation added, the same draws give the result of the plain definition.
  ImagePolicy standardised = policy;
  standardised.normalise = ImagePolicy::Normalise::kPerImage;
  ExpectNear(Apply(field, standardised, image, 2, 77, random.seed()),
             Standardised(std::vector<double>(output.begin(), output.end())));
}

// An image whose pixels encode their position shows each draw's corner and flip.
TEST(Augmenter, CropsAndFlipsAreUniform) {
  const Field field = Images(16, 16, 1);
  std::string image(256, '\0');
  for (int i = 0; i < 256; ++i) image[i] = static_cast<char>(i);
  const ImagePolicy policy = {.crop = 13, .random_crop = true, .random_flip = true};
  ASSERT_OK_AND_ASSIGN(auto augmenter, Augmenter::Create(field, policy, 3));
  std::map<std::vector<int>, int> counts;
  std::vector<float> output(13 * 13);
  constexpr int kDraws = 32'000;
  for (int i = 0; i < kDraws; ++i) {
    augmenter.Apply(reinterpret_cast<const uint8_t*>(image.data()), i / 1'000, i % 1'000, output.data());
    const bool flip = output[0] > output[12];
    const int corner = static_cast<int>(std::min(output[0], output[12]));
    ++counts[{corner / 16, corner % 16, flip}];
    ASSERT_EQ(output[12 * 13 + (flip ? 12 : 0)], corner + 12 * 16);
  }
  EXPECT_EQ(counts.size(), 4u * 4 * 2);
  for (const auto& [draw, count] : counts) EXPECT_NEAR(count, kDraws / 32, 160);  // 5 standard deviations
}

TEST(Augmenter, BrightnessAndContrastAreUniform) {
  const Field field = Images(1, 2, 1);
  const std::string image("\x64\x66", 2);  // 100 and 102: mean 101
  const ImagePolicy policy = {.brightness = 10, .contrast_lower = 0.5f, .contrast_upper = 1.5f};
  ASSERT_OK_AND_ASSIGN(auto augmenter, Augmenter::Create(field, policy, 3));
  constexpr int kDraws = 20'000;
  int brightness[10] = {}, contrast[10] = {};
  for (int i = 0; i < kDraws; ++i) {
    float output[2];
    augmenter.Apply(reinterpret_cast<const uint8_t*>(image.data()), 0, i, output);
    const double b = ((output[0] + output[1]) / 2 - 101 + 10) / 20, f = (output[1] - output[0]) / 2 - 0.5;
    ++brightness[std::clamp(static_cast<int>(b * 10), 0, 9)];
    ++contrast[std::clamp(static_cast<int>(f * 10), 0, 9)];
  }
  for (int bin = 0; bin < 10; ++bin) {
    EXPECT_NEAR(brightness[bin], kDraws / 10, 215);  // 5 standard deviations
    EXPECT_NEAR(contrast[bin], kDraws / 10, 215);
  }
}

TEST(Augmenter, DependsOnSeedEpochAndIndexAlone) {
  FreshRandom random;
  const Field field = Images(32, 32, 3);
  const std::string image = random.Bytes(field.bytes());
  const auto draw = [&](uint64_t seed, int64_t epoch, int64_t index) {
    return Apply(field, TutorialTraining(), image, epoch, index, seed);
  };
  const std::vector<float> once = draw(1, 2, 3);
  EXPECT_EQ(once, draw(1, 2, 3));
  EXPECT_NE(once, draw(2, 2, 3));
  EXPECT_NE(once, draw(1, 3, 3));
  EXPECT_NE(once, draw(1, 2, 4));
  EXPECT_NE(draw(1, 3, 2), once);
}

// With any number of channels, a flipped image is the mirror image, with the padding on the other side.
TEST(Augmenter, FlipsPixelsAsAWhole) {
  FreshRandom random;
  for (int64_t channels : {1, 2, 3, 5}) {
    const Field field = Images(9, 7, channels);
    const std::string image = random.Bytes(field.bytes());
    const ImagePolicy policy = {.pad = 3, .crop = 11, .random_crop = true, .random_flip = true};
    int flips = 0;
    for (int64_t index = 0; index < 40; ++index) {
      const std::vector<float> output = Apply(field, policy, image, 0, index);
      const auto matches = [&](int64_t top, int64_t left, bool flip) {
        for (int64_t i = 0; i < 11 * 11 * channels; ++i) {
          const int64_t y = top + i / channels / 11, column = i / channels % 11,
                        x = left + (flip ? 10 - column : column);
          const bool inside = 0 <= y && y < 9 && 0 <= x && x < 7;
          if (output[i] != (inside ? At(field, image, y, x, i % channels) : 0)) return false;
        }
        return true;
      };
      int found = 0;
      for (int64_t corner = 0; corner < 5 * 3; ++corner) {
        found += matches(corner / 3 - 3, corner % 3 - 3, false);
        const bool flipped = matches(corner / 3 - 3, corner % 3 - 3, true);
        found += flipped;
        flips += flipped;
      }
      EXPECT_EQ(found, 1);
    }
    EXPECT_THAT(flips, testing::AllOf(testing::Gt(5), testing::Lt(35)));
  }
}

TEST(Augmenter, PaddingIsBlackAndChannelsAreNormalised) {
  const Field field = Images(32, 32, 3);
  std::string image;
  for (int i = 0; i < 1024; ++i) image += "\x0A\x14\x1E";
  const ChannelStatistics statistics = {{10, 10, 10}, {1, 2, 5}};
  const ImagePolicy policy = ResNetTraining(statistics);
  const float inside[] = {0, 5, 4}, padded[] = {-10, -5, -2};
  int64_t least = 1024, most = 0;
  for (int64_t index = 0; index < 300; ++index) {
    const std::vector<float> output = Apply(field, policy, image, 0, index);
    int64_t pixels = 0;
    for (size_t i = 0; i < output.size(); ++i) {
      ASSERT_TRUE(output[i] == inside[i % 3] || output[i] == padded[i % 3]) << output[i];
      pixels += i % 3 == 0 && output[i] == 0;
    }
    least = std::min(least, pixels);
    most = std::max(most, pixels);
  }
  EXPECT_EQ(most, 32 * 32);
  EXPECT_EQ(least, 28 * 28);
  const std::vector<float> whole = Apply(field, ResNetEvaluation(statistics), image);
  for (size_t i = 0; i < whole.size(); ++i) ASSERT_EQ(whole[i], inside[i % 3]);
}

// Positions outside of 0 ... extent - 1 as in a mirror at the centre of the edge pixel, found by walking.
int64_t Walk(int64_t at, int64_t extent) {
  int64_t place = 0, step = 1;
  for (int64_t i = 0; i < std::abs(at); ++i) {
    if (place + step < 0 || place + step >= extent) step = -step;
    place += step;
  }
  return place;
}

TEST(Augmenter, ReflectsTheInsideInThePadding) {
  FreshRandom random;
  for (const int64_t channels : {1, 3, 4}) {
    for (const int64_t pad : {1, 2, 6}) {
      const Field field = Images(9, 7, channels);
      const std::string image = random.Bytes(field.bytes());
      const ImagePolicy policy = {.pad = pad, .reflect = true};
      const std::vector<float> output = Apply(field, policy, image);
      const int64_t width = 7 + 2 * pad;
      ASSERT_EQ(output.size(), static_cast<size_t>((9 + 2 * pad) * width * channels));
      for (size_t i = 0; i < output.size(); ++i) {
        const auto pixel = static_cast<int64_t>(i) / channels;
        const int64_t y = Walk(pixel / width - pad, 9), x = Walk(pixel % width - pad, 7);
        ASSERT_EQ(output[i], At(field, image, y, x, static_cast<int64_t>(i) % channels)) << i;
      }
    }
  }
}

// A random crop of the reflected image is a part of the whole one, mirrored or not.
TEST(Augmenter, CropsReflectedImages) {
  FreshRandom random;
  const Field field = Images(8, 8, 3);
  const std::string image = random.Bytes(field.bytes());
  const std::vector<float> whole = Apply(field, {.pad = 2, .reflect = true}, image);
  const ImagePolicy policy = {.pad = 2, .reflect = true, .crop = 8, .random_crop = true, .alternating_flip = true};
  for (int64_t index = 0; index < 30; ++index) {
    const std::vector<float> output = Apply(field, policy, image, index % 3, index);
    const auto matches = [&](int64_t top, int64_t left, bool flip) {
      for (int64_t i = 0; i < 8 * 8 * 3; ++i) {
        const int64_t y = top + i / 24, column = i / 3 % 8, x = left + (flip ? 7 - column : column);
        if (output[i] != whole[(y * 12 + x) * 3 + i % 3]) return false;
      }
      return true;
    };
    int found = 0;
    for (int64_t corner = 0; corner < 25; ++corner) {
      found += matches(corner / 5, corner % 5, false) + matches(corner / 5, corner % 5, true);
    }
    EXPECT_EQ(found, 1) << index;
  }
}

// Each image is flipped in every second epoch, and half of the images in the first one.
TEST(Augmenter, FlipsAlternate) {
  const Field field = Images(1, 2, 1);
  const std::string image("\x01\x02", 2);
  const ImagePolicy policy = {.alternating_flip = true};
  int first = 0;
  constexpr int kImages = 2'000;
  for (int64_t index = 0; index < kImages; ++index) {
    const std::vector<float> even = Apply(field, policy, image, 0, index), odd = Apply(field, policy, image, 1, index);
    ASSERT_EQ(even[0], odd[1]);
    ASSERT_EQ(even[1], odd[0]);
    EXPECT_EQ(Apply(field, policy, image, 6, index), even);
    EXPECT_EQ(Apply(field, policy, image, 9, index), odd);
    first += even[0] == 2;
  }
  EXPECT_NEAR(first, kImages / 2, 112);  // 5 standard deviations
}

// The mean of a pixel goes with it, and padding is 0.
TEST(Augmenter, SubtractsTheMeanOfEachPixel) {
  FreshRandom random;
  const Field field = Images(6, 5, 2);
  const std::string image = random.Bytes(field.bytes());
  ImagePolicy policy = {.pad = 1, .crop = 5, .random_crop = true, .random_flip = true};
  const ImagePolicy plain = policy;
  policy.normalise = ImagePolicy::Normalise::kPerPixel;
  policy.deviation = {2, 4};
  // Bytes and means that say where a value is from: what is left of a pixel is the same as that of its own mean.
  for (int64_t i = 0; i < 6 * 5 * 2; ++i)
    policy.mean.push_back(static_cast<float>(At(field, image, i / 10, i / 2 % 5, i % 2)));
  for (int64_t index = 0; index < 20; ++index) {
    for (const float value : Apply(field, policy, image, 0, index)) ASSERT_EQ(value, 0) << index;
  }
  std::fill(policy.mean.begin(), policy.mean.end(), 0.0f);
  policy.mean[2 * (2 * 5 + 3)] = 8;  // pixel (2, 3), channel 0
  int changed = 0;
  for (int64_t index = 0; index < 20; ++index) {
    const std::vector<float> output = Apply(field, policy, image, 0, index),
                             bytes = Apply(field, plain, image, 0, index);
    for (size_t i = 0; i < output.size(); ++i) {
      const float scaled = bytes[i] / (i % 2 == 0 ? 2.0f : 4.0f);
      if (output[i] == scaled) continue;
      ASSERT_EQ(output[i], scaled - 4);
      ASSERT_EQ(bytes[i], At(field, image, 2, 3, 0));
      ++changed;
    }
  }
  EXPECT_THAT(changed, testing::AllOf(testing::Ge(15), testing::Le(20)));
}

// The square of zeros that cutout makes is cut off at the edges, and leaves the rest as it is.
TEST(Augmenter, CutsSquaresOut) {
  FreshRandom random;
  for (const int64_t size : {1, 2, 5, 11}) {
    const Field field = Images(14, 17, 3);
    const std::string image = random.Bytes(field.bytes());
    ImagePolicy policy = {.pad = 1, .crop = 11, .random_crop = true, .random_flip = true, .brightness = 3000};
    ImagePolicy with = policy;
    with.cutout = size;
    int found[11][11] = {};
    for (int64_t index = 0; index < 400; ++index) {
      const std::vector<float> whole = Apply(field, policy, image, 0, index), cut = Apply(field, with, image, 0, index);
      int64_t top = 11, bottom = -1, left = 11, right = -1, zeros = 0;
      for (int64_t i = 0; i < 11 * 11; ++i) {
        const bool zero = cut[3 * i] == 0 && cut[3 * i + 1] == 0 && cut[3 * i + 2] == 0;
        if (!zero) {
          for (int c = 0; c < 3; ++c) ASSERT_EQ(cut[3 * i + c], whole[3 * i + c]);
          continue;
        }
        ++zeros;
        top = std::min(top, i / 11), bottom = std::max(bottom, i / 11);
        left = std::min(left, i % 11), right = std::max(right, i % 11);
      }
      const int64_t height = bottom - top + 1, width = right - left + 1;
      ASSERT_EQ(zeros, height * width);
      ASSERT_TRUE(height <= size && width <= size && height >= size / 2 && width >= size / 2);
      ASSERT_TRUE(height == size || top == 0 || bottom == 10);
      ASSERT_TRUE(width == size || left == 0 || right == 10);
      const int64_t y = top > 0 ? top + size / 2 : bottom - size + 1 + size / 2;
      const int64_t x = left > 0 ? left + size / 2 : right - size + 1 + size / 2;
      ++found[y][x];
    }
    int pixels = 0;
    for (const auto& row : found) pixels += static_cast<int>(std::count_if(row, row + 11, [](int n) { return n > 0; }));
    EXPECT_GT(pixels, 100) << "of 121 that are drawn alike";
  }
}

TEST(Augmenter, RejectsPoliciesThatDoNotFit) {
  const Field field = Images(20, 32, 3);
  const auto error = [&](const ImagePolicy& policy) { return Augmenter::Create(field, policy, 0).status(); };
  ExpectError(error({.crop = 24}), StatusCode::kInvalidArgument, "24x24", "[20,32,3]");
  EXPECT_TRUE(error({.pad = 2, .crop = 24}).ok());
  for (const int64_t pad : {int64_t{8200}, int64_t{1} << 31, std::numeric_limits<int64_t>::max()}) {
    ExpectError(error({.pad = pad}), StatusCode::kInvalidArgument, absl::StrCat("by ", pad, " on each side"));
  }
  ExpectError(error({.pad = -1}), StatusCode::kInvalidArgument, "padding by -1");
  ExpectError(error({.contrast_lower = 2, .contrast_upper = 1}), StatusCode::kInvalidArgument, "contrast");
  ExpectError(error({.brightness = std::numeric_limits<float>::quiet_NaN()}), StatusCode::kInvalidArgument, "nan");
  ExpectError(error({.normalise = ImagePolicy::Normalise::kPerChannel, .mean = {1}, .deviation = {1}}),
              StatusCode::kInvalidArgument, "1 means", "3 channels");
  ExpectError(error(ResNetEvaluation({{1, 2, 3}, {1, 0, 1}})), StatusCode::kInvalidArgument, "channel 1");
  ExpectError(error({.pad = 20, .reflect = true}), StatusCode::kInvalidArgument, "no mirror image of 20 pixels");
  EXPECT_TRUE(error({.pad = 19, .reflect = true}).ok());
  ExpectError(error({.random_flip = true, .alternating_flip = true}), StatusCode::kInvalidArgument, "exclude");
  ExpectError(error({.normalise = ImagePolicy::Normalise::kPerPixel, .mean = {1, 2, 3}, .deviation = {1, 1, 1}}),
              StatusCode::kInvalidArgument, "per-pixel normalisation has 3 means", "1920 values");
  ExpectError(error({.crop = 20, .cutout = 21}), StatusCode::kInvalidArgument,
              "a cutout of 21x21; expected at most 20");
  ExpectError(error({.cutout = -1}), StatusCode::kInvalidArgument, "cutout of -1");
  ExpectError(Augmenter::Create(Field{"x", DType::kFloat32, {3}}, {}, 0).status(), StatusCode::kInvalidArgument,
              "float32");
}

TEST(ChannelStatistics, MatchesTheDefinition) {
  FreshRandom random;
  const std::string bytes = random.Bytes(3 * 4 * 5 * 2);
  Tensor images(DType::kUInt8, {3, 4, 5, 2});
  std::copy(bytes.begin(), bytes.end(), images.data<uint8_t>());
  ASSERT_OK_AND_ASSIGN(const auto dataset, FromTensors({{"image", images}}));
  ASSERT_OK_AND_ASSIGN(const auto statistics, ComputeChannelStatistics(*dataset));
  for (int c = 0; c < 2; ++c) {
    double mean = 0, square = 0;
    for (int i = 0; i < 60; ++i) mean += images.data<uint8_t>()[2 * i + c] / 60.0;
    for (int i = 0; i < 60; ++i) square += std::pow(images.data<uint8_t>()[2 * i + c] - mean, 2) / 60;
    EXPECT_NEAR(statistics.mean[c], mean, 1e-4);
    EXPECT_NEAR(statistics.deviation[c], std::sqrt(square), 1e-4);
  }
}

}  // namespace
}  // namespace belfry::data
