#include "framework/io/summary.h"

#include <png.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "framework/io/event.pb.h"
#include "tests/framework/io/event_testing.h"
#include "tests/framework/io/io_testing.h"

namespace belfry::io {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

proto::Summary Parse(const Summary& summary) {
  proto::Summary parsed;
  EXPECT_TRUE(parsed.ParseFromString(summary.bytes()));
  return parsed;
}

// The pixels of a PNG file.
std::vector<int> Pixels(const proto::Summary::Image& image) {
  const std::string& file = image.encoded_image_string();
  png_image png;
  std::memset(&png, 0, sizeof(png));
  png.version = PNG_IMAGE_VERSION;
  if (png_image_begin_read_from_memory(&png, file.data(), file.size()) == 0) return {};
  EXPECT_EQ(static_cast<int>(png.height), image.height());
  EXPECT_EQ(static_cast<int>(png.width), image.width());
  const int channels = image.colorspace();
  const png_uint_32 expected = channels == 1 ? PNG_FORMAT_GRAY : channels == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_RGBA;
  EXPECT_EQ(png.format, expected);
  std::vector<uint8_t> bytes(PNG_IMAGE_SIZE(png));
  EXPECT_NE(png_image_finish_read(&png, nullptr, bytes.data(), 0, nullptr), 0);
  return {bytes.begin(), bytes.end()};
}

// Pixels of a grey image with these values in a row.
std::vector<int> GreyOf(std::initializer_list<float> values) {
  Summary summary;
  const absl::Status status =
      summary.AddImages("x", Tensor::Of<float>(values, {1, static_cast<int64_t>(values.size()), 1}), 1);
  EXPECT_TRUE(status.ok()) << status;
  return Pixels(Parse(summary).value(0).image());
}

TEST(Summary, AScalarIsAsTensorFlowWritesIt) {
  Summary summary;
  EXPECT_TRUE(summary.empty());
  summary.AddScalar("a", 2.5);
  EXPECT_EQ(summary.bytes(), FromHex("0a080a01611500002040"));
}

TEST(Summary, ValuesKeepTheirOrder) {
  Summary summary;
  summary.AddScalar("first", 1);
  summary.AddHistogram("second", Histogram(Tensor::Of<float>({1})));
  summary.AddScalar("third", NAN);
  const proto::Summary parsed = Parse(summary);
  ASSERT_EQ(parsed.value_size(), 3);
  EXPECT_EQ(parsed.value(0).tag(), "first");
  EXPECT_EQ(parsed.value(1).tag(), "second");
  EXPECT_TRUE(std::isnan(parsed.value(2).simple_value()));
}

TEST(Summary, TagsAreUtf8) {
  const auto tag_of = [](const std::string& tag) {
    Summary summary;
    summary.AddScalar(tag, 1);
    return Parse(summary).value(0).tag();
  };
  for (const std::string tag : {"", "a/b c", "\u00e9\u20ac", "\U0001F600"}) EXPECT_EQ(tag_of(tag), tag);
  EXPECT_EQ(tag_of("a\xff\x62"), "a?b");
  EXPECT_EQ(tag_of("\xc0\x80"), "??");            // not the shortest encoding
  EXPECT_EQ(tag_of("\xed\xa0\x80"), "???");       // a surrogate
  EXPECT_EQ(tag_of("\xf4\x90\x80\x80"), "????");  // beyond the last code point
  EXPECT_EQ(tag_of("\xe2\x82"), "??");            // cut off
}

TEST(Summary, RunsOfEmptyBucketsBecomeOne) {
  Summary summary;
  summary.AddHistogram("h", Histogram(Tensor::Of<float>({-1, 2, 2, 2.1f})));
  const proto::HistogramProto parsed = Parse(summary).value(0).histo();
  EXPECT_EQ(parsed.min(), -1);
  EXPECT_EQ(parsed.num(), 4);
  EXPECT_EQ(parsed.sum(), 1 - 4 + 8 + static_cast<double>(2.1f) - 2);
  ASSERT_EQ(parsed.bucket_size(), parsed.bucket_limit_size());
  std::vector<double> counts(parsed.bucket().begin(), parsed.bucket().end());
  // 2 and 2.1 are in one bucket, or in two that are neighbours.
  EXPECT_THAT(counts, testing::AnyOf(ElementsAre(0, 1, 0, 2, 1, 0), ElementsAre(0, 1, 0, 3, 0)));
  for (int i = 1; i < parsed.bucket_limit_size(); ++i) EXPECT_GT(parsed.bucket_limit(i), parsed.bucket_limit(i - 1));
  // Value -1 lies between the limits around its bucket.
  EXPECT_LE(parsed.bucket_limit(0), -1);
  EXPECT_GT(parsed.bucket_limit(1), -1);
  EXPECT_EQ(parsed.bucket_limit(parsed.bucket_limit_size() - 1), std::numeric_limits<double>::max());
}

TEST(Summary, TheNumberOfValuesThatAreNotFiniteStandsBeside) {
  Summary summary;
  summary.AddHistogram("h", Histogram(Tensor::Of<float>({NAN, NAN, 1})));
  summary.AddHistogram("none", Histogram());
  const proto::Summary parsed = Parse(summary);
  ASSERT_EQ(parsed.value_size(), 3);
  EXPECT_EQ(parsed.value(0).histo().num(), 1);
  EXPECT_EQ(parsed.value(1).tag(), "h/not_finite");
  EXPECT_EQ(parsed.value(1).simple_value(), 2);
  EXPECT_EQ(parsed.value(2).histo().num(), 0);
}

TEST(Summary, BytesAreShownAsTheyAre) {
  FreshRandom random;
  for (const int64_t channels : {1, 3, 4}) {
    Tensor images(DType::kUInt8, {3, 5, 7, channels});
    for (int64_t i = 0; i < images.elements(); ++i)
      images.data<uint8_t>()[i] = static_cast<uint8_t>(random.Between(0, 255));
    Summary summary;
    ASSERT_TRUE(summary.AddImages("x", images, 2).ok());
    const proto::Summary parsed = Parse(summary);
    ASSERT_EQ(parsed.value_size(), 2);
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(parsed.value(i).tag(), "x/image/" + std::to_string(i));
      const auto one = images.span<uint8_t>().subspan(i * 35 * channels, 35 * channels);
      EXPECT_EQ(Pixels(parsed.value(i).image()), std::vector<int>(one.begin(), one.end()));
    }
  }
}

TEST(Summary, FloatsAreScaledAsTensorFlowDoes) {
  EXPECT_THAT(GreyOf({0, 1, 2}), ElementsAre(0, 128, 255));
  EXPECT_THAT(GreyOf({-2, 0, 1}), ElementsAre(1, 128, 192));
  EXPECT_THAT(GreyOf({-1, 0, 2}), ElementsAre(65, 128, 255));
  EXPECT_THAT(GreyOf({0, 0}), ElementsAre(0, 0));
  EXPECT_THAT(GreyOf({NAN, 1, std::numeric_limits<float>::infinity()}), ElementsAre(255, 255, 255));
  EXPECT_THAT(GreyOf({NAN}), ElementsAre(255));
}

TEST(Summary, APixelThatIsNotFiniteIsRed) {
  Summary summary;
  ASSERT_TRUE(summary.AddImages("x", Tensor::Of<float>({0, 0, 1, 0, NAN, 1}, {1, 2, 3}), 1).ok());
  const proto::Summary parsed = Parse(summary);
  EXPECT_EQ(parsed.value(0).tag(), "x/image");
  EXPECT_THAT(Pixels(parsed.value(0).image()), ElementsAre(0, 0, 255, 255, 0, 0));
}

TEST(Summary, EachImageHasAScaleOfItsOwn) {
  Summary summary;
  ASSERT_TRUE(summary.AddImages("x", Tensor::Of<double>({0, 1, 0, 100}, {2, 1, 2, 1}), 5).ok());
  const proto::Summary parsed = Parse(summary);
  ASSERT_EQ(parsed.value_size(), 2);
  EXPECT_EQ(Pixels(parsed.value(0).image()), Pixels(parsed.value(1).image()));
}

TEST(Summary, WhatIsNoImageIsAnErrorAndAddsNothing) {
  Summary summary;
  const auto rejects = [&](const Tensor& images, int64_t max_images = 3) {
    EXPECT_THAT(summary.AddImages("the tag", images, max_images),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("the tag")));
  };
  rejects(Tensor(DType::kUInt8, {4, 4}));
  rejects(Tensor(DType::kUInt8, {4, 4, 2}));
  rejects(Tensor(DType::kUInt8, {1, 4, 4, 5}));
  rejects(Tensor(DType::kInt32, {4, 4, 3}));
  rejects(Tensor(DType::kFloat32, {2, 0, 4, 3}));
  rejects(Tensor(DType::kUInt8, {1, 1'000'001, 1}));
  rejects(Tensor(DType::kUInt8, {4, 4, 3}), 0);
  EXPECT_TRUE(summary.empty());
  EXPECT_TRUE(summary.AddImages("none", Tensor(DType::kUInt8, {0, 4, 4, 3})).ok());
}

}  // namespace
}  // namespace belfry::io
