#include "framework/io/pictures/picture.h"

#include <algorithm>
#include <cstdlib>

#include "tests/framework/io/encode_pictures.h"
#include "tests/main/testing.h"

namespace belfry::io {
namespace {

using ::testing::HasSubstr;

// Colours that change slowly, as JPEG wants them.
std::vector<uint8_t> Smooth(int height, int width, int channels) {
  std::vector<uint8_t> pixels;
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      const int values[] = {40 + 160 * y / height, 220 - 180 * x / width, 60 + 100 * (x + y) / (height + width), 255};
      pixels.insert(pixels.end(), values, values + channels);
    }
  }
  return pixels;
}

std::vector<uint8_t> Random(size_t count) {
  std::vector<uint8_t> values(count);
  for (uint8_t& value : values) value = static_cast<uint8_t>(TestRandom()());
  return values;
}

int LargestDifference(const std::vector<uint8_t>& a, const std::vector<uint8_t>& b) {
  if (a.size() != b.size()) return 1000;
  int largest = 0;
  for (size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}

TEST(Picture, DecodesPngsOfEveryKind) {
  constexpr int kHeight = 7, kWidth = 13, kCount = kHeight * kWidth;
  for (const bool interlaced : {false, true}) {
    for (const int bits : {8, 16}) {
      const std::vector<uint8_t> rgb = Random(3 * kCount), grey = Random(kCount);
      const PngOptions of_rgb{.channels = 3, .bits = bits, .interlaced = interlaced};
      ASSERT_OK_AND_ASSIGN(const auto picture, DecodePicture(EncodeAnyPng(rgb, kHeight, kWidth, of_rgb)));
      EXPECT_EQ(picture.height, kHeight);
      EXPECT_EQ(picture.width, kWidth);
      EXPECT_EQ(picture.pixels, rgb);
      ASSERT_OK_AND_ASSIGN(const auto as_grey,
                           DecodePicture(EncodeAnyPng(rgb, kHeight, kWidth, of_rgb), {.channels = 1}));
      for (int i = 0; i < kCount; ++i) {
        const int grey_of = (299 * rgb[3 * i] + 587 * rgb[3 * i + 1] + 114 * rgb[3 * i + 2] + 500) / 1000;
        ASSERT_EQ(as_grey.pixels[i], grey_of);
      }
      const PngOptions of_grey{.channels = 1, .bits = bits, .interlaced = interlaced};
      const std::string file = EncodeAnyPng(grey, kHeight, kWidth, of_grey);
      EXPECT_EQ(DecodePicture(file, {.channels = 1})->pixels, grey);
      ASSERT_OK_AND_ASSIGN(const auto as_rgb, DecodePicture(file));
      for (int i = 0; i < 3 * kCount; ++i) ASSERT_EQ(as_rgb.pixels[i], grey[i / 3]);
    }
  }
}

TEST(Picture, DecodesPalettesAndFewBits) {
  std::vector<uint8_t> indices = Random(5 * 9);
  for (uint8_t& index : indices) index &= 3;
  const std::vector<uint8_t> colours = {255, 0, 0, 0, 255, 0, 0, 0, 255, 10, 20, 30};
  ASSERT_OK_AND_ASSIGN(const auto picture,
                       DecodePicture(EncodeAnyPng(
                           indices, 5, 9, {.bits = 2, .palette = true, .colours = colours, .transparency = {255, 0}})));
  for (size_t i = 0; i < indices.size(); ++i) {
    for (size_t c = 0; c < 3; ++c) {
      ASSERT_EQ(picture.pixels[3 * i + c], indices[i] == 1 ? 255 : colours[3 * indices[i] + c]) << i;
    }
  }
  std::vector<uint8_t> bits = Random(3 * 17);
  for (uint8_t& bit : bits) bit &= 1;
  ASSERT_OK_AND_ASSIGN(const auto black_and_white,
                       DecodePicture(EncodeAnyPng(bits, 3, 17, {.channels = 1, .bits = 1}), {.channels = 1}));
  for (size_t i = 0; i < bits.size(); ++i) ASSERT_EQ(black_and_white.pixels[i], bits[i] * 255);
}

TEST(Picture, ReadsTheNumbersOfMasks) {
  std::vector<uint8_t> numbers = Random(6 * 11);
  for (uint8_t& number : numbers) number &= 3;
  const DecodeOptions as_numbers{.channels = 1, .numbers = true};
  const PngOptions palette{.bits = 2, .palette = true, .colours = {9, 9, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9}};
  EXPECT_EQ(DecodePicture(EncodeAnyPng(numbers, 6, 11, palette), as_numbers)->pixels, numbers);
  for (const bool interlaced : {false, true}) {
    for (const int bits : {2, 4, 8}) {
      const PngOptions grey{.channels = 1, .bits = bits, .interlaced = interlaced};
      EXPECT_EQ(DecodePicture(EncodeAnyPng(numbers, 6, 11, grey), as_numbers)->pixels, numbers) << bits;
    }
  }
  for (const PngOptions& refused :
       {PngOptions{.channels = 1, .bits = 16}, PngOptions{.channels = 3}, PngOptions{.channels = 2}}) {
    const auto mask = DecodePicture(EncodeAnyPng(Random(4 * refused.channels), 2, 2, refused), as_numbers);
    EXPECT_THAT(mask.status().message(), HasSubstr("is no mask"));
  }
}

TEST(Picture, LaysTransparentPixelsOnTheBackground) {
  const std::vector<uint8_t> pixels = {100, 200, 50, 0, 100, 200, 50, 255, 100, 200, 50, 51};
  const std::string file = EncodeAnyPng(pixels, 1, 3, {.channels = 4});
  EXPECT_EQ(DecodePicture(file)->pixels, (std::vector<uint8_t>{255, 255, 255, 100, 200, 50, 224, 244, 214}));
  EXPECT_EQ(DecodePicture(file, {.background = 0})->pixels, (std::vector<uint8_t>{0, 0, 0, 100, 200, 50, 20, 40, 10}));
  const std::string grey = EncodeAnyPng({100, 0, 100, 255}, 1, 2, {.channels = 2});
  EXPECT_EQ(DecodePicture(grey, {.channels = 1})->pixels, (std::vector<uint8_t>{255, 100}));
}

TEST(Picture, DecodesJpegsOfEveryKind) {
  const std::vector<uint8_t> rgb = Smooth(40, 56, 3), grey = Smooth(40, 56, 1), inks = Smooth(40, 56, 4);
  for (const bool progressive : {false, true}) {
    ASSERT_OK_AND_ASSIGN(const auto picture, DecodePicture(EncodeAnyJpeg(rgb, 40, 56, {.progressive = progressive})));
    EXPECT_LE(LargestDifference(picture.pixels, rgb), 4);
  }
  ASSERT_OK_AND_ASSIGN(const auto one, DecodePicture(EncodeAnyJpeg(grey, 40, 56, {.channels = 1}), {.channels = 1}));
  EXPECT_LE(LargestDifference(one.pixels, grey), 4);
  // Without black ink, inverted inks are RGB.
  ASSERT_OK_AND_ASSIGN(const auto from_inks, DecodePicture(EncodeAnyJpeg(inks, 40, 56, {.channels = 4})));
  EXPECT_LE(LargestDifference(from_inks.pixels, rgb), 6);
  EXPECT_EQ(DecodePicture(EncodeAnyJpeg(inks, 40, 56, {.channels = 4}), {.channels = 1})->pixels.size(), grey.size());
}

TEST(Picture, MakesJpegsSmallerWhileDecoding) {
  const std::string file = EncodeAnyJpeg(Smooth(90, 61, 3), 90, 61);
  for (const int shrink : {2, 4, 8}) {
    ASSERT_OK_AND_ASSIGN(const auto picture, DecodePicture(file, {.shrink = shrink}));
    EXPECT_EQ(picture.height, (90 + shrink - 1) / shrink);
    EXPECT_EQ(picture.width, (61 + shrink - 1) / shrink);
    EXPECT_NEAR(picture.pixels[0], 40 + 80 * shrink / 90, 6);
  }
}

// The corners of an upright picture: where each of the stored ones comes to lie.
TEST(Picture, TurnsPicturesUpright) {
  constexpr int kHeight = 16, kWidth = 32;
  std::vector<uint8_t> stored(kHeight * kWidth, 0);
  for (int y = 0; y < kHeight; ++y) {
    for (int x = 0; x < kWidth; ++x)
      stored[y * kWidth + x] = static_cast<uint8_t>((y < 8 ? 0 : 120) + (x < 16 ? 0 : 60));
  }
  // Upper left, upper right, lower left, lower right, in units of 60.
  const std::vector<std::vector<int>> corners = {{0, 1, 2, 3}, {1, 0, 3, 2}, {3, 2, 1, 0}, {2, 3, 0, 1},
                                                 {0, 2, 1, 3}, {2, 0, 3, 1}, {3, 1, 2, 0}, {1, 3, 0, 2}};
  for (int orientation = 1; orientation <= 8; ++orientation) {
    const std::string file = EncodeAnyJpeg(
        stored, kHeight, kWidth, {.channels = 1, .orientation = orientation, .big_endian = orientation % 2 == 0});
    ASSERT_OK_AND_ASSIGN(const auto header, ReadPictureHeader(file));
    EXPECT_EQ(header.orientation, orientation);
    ASSERT_OK_AND_ASSIGN(const auto picture, DecodePicture(file, {.channels = 1}));
    EXPECT_EQ(header.height, orientation < 5 ? kHeight : kWidth);
    EXPECT_EQ(picture.height, header.height);
    EXPECT_EQ(picture.width, header.width);
    const int64_t bottom = (picture.height - 1) * picture.width, right = picture.width - 1;
    int at = 0;
    for (const int64_t corner : {int64_t{0}, right, bottom, bottom + right}) {
      EXPECT_NEAR(picture.pixels[corner], 60 * corners[orientation - 1][at++], 5) << orientation;
    }
  }
}

TEST(Picture, SaysWhatIsWrong) {
  const std::string png = EncodeAnyPng(Random(3 * 30 * 30), 30, 30), jpeg = EncodeAnyJpeg(Smooth(64, 64, 3), 64, 64);
  const auto error = [](const std::string& file) { return std::string(DecodePicture(file).status().ToString()); };
  EXPECT_THAT(error(""), HasSubstr("is empty"));
  EXPECT_THAT(error("GIF89a"), HasSubstr("neither a PNG nor a JPEG"));
  EXPECT_THAT(error(png.substr(0, png.size() / 2)),
              HasSubstr("DATA_LOSS: the PNG cannot be decoded: the file ends early"));
  EXPECT_THAT(error(jpeg.substr(0, jpeg.size() / 2)), HasSubstr("DATA_LOSS: the JPEG ends early"));
  EXPECT_THAT(error(png.substr(0, 20)), HasSubstr("INVALID_ARGUMENT"));
  EXPECT_THAT(error(jpeg.substr(0, 20)), HasSubstr("INVALID_ARGUMENT"));
  std::string changed = png;
  changed[png.size() / 2] ^= 0x10;
  EXPECT_THAT(error(changed), HasSubstr("DATA_LOSS"));
  // 65,500 x 65,500 pixels, the most that libjpeg takes, in a few bytes.
  std::string bomb = jpeg;
  const size_t frame = jpeg.find("\xff\xc0");
  ASSERT_NE(frame, std::string::npos);
  bomb.replace(frame + 5, 4, "\xff\xdc\xff\xdc");
  EXPECT_THAT(error(bomb), HasSubstr("RESOURCE_EXHAUSTED: the picture has 65500x65500 pixels"));
}

TEST(Picture, NoDamageCrashes) {
  const std::vector<std::string> files = {
      EncodeAnyPng(Random(3 * 20 * 20), 20, 20, {.interlaced = true}), EncodeAnyJpeg(Smooth(40, 40, 3), 40, 40),
      EncodeAnyJpeg(Smooth(40, 40, 3), 40, 40, {.progressive = true, .orientation = 6}),
      EncodeAnyJpeg(Smooth(24, 24, 4), 24, 24, {.channels = 4})};
  for (const std::string& file : files) {
    for (int turn = 0; turn < 500; ++turn) {
      std::string damaged = file;
      const int changes = 1 + static_cast<int>(TestRandom()() % 4);
      for (int i = 0; i < changes; ++i) damaged[TestRandom()() % damaged.size()] = static_cast<char>(TestRandom()());
      if (turn % 5 == 0) damaged.resize(TestRandom()() % damaged.size());
      const auto picture = DecodePicture(damaged, {.shrink = 1 << turn % 4});
      if (picture.ok())
        EXPECT_EQ(picture->pixels.size(), picture->height * picture->width * 3u);
      else
        EXPECT_FALSE(picture.status().message().empty());
    }
  }
}

}  // namespace
}  // namespace belfry::io
