// The arithmetic of image preprocessing, for kernels of every device: what an ImagePolicy does to one image. The
// functions are `constexpr` so that nvcc can compile them for the device, too. Internal.
#pragma once

#include <cmath>
#include <cstdint>

#include "framework/base/philox.h"

namespace belfry::data {

// An ImagePolicy for images [height, width, channels] of bytes, without its statistics of channels. Lengths are in
// pixels, brightness in units of the bytes.
struct ImageRule {
  int64_t height = 0, width = 0, channels = 0;
  int64_t out_height = 0, out_width = 0;  // of the crop
  int64_t pad = 0, cutout = 0;
  bool reflect = false;  // the padding shows the mirror image of the inside
  bool random_crop = false, random_flip = false, alternating_flip = false;
  bool per_image = false, per_channel = false;  // the normalisation
  float brightness = 0, contrast_lower = 1, contrast_upper = 1;
  uint64_t key = 0;

  constexpr int64_t pixels() const { return out_height * out_width; }
  // True if the affine map depends on the image's bytes.
  constexpr bool needs_sums() const { return contrast_lower != 1 || contrast_upper != 1 || per_image; }
};

// The random numbers of one image.
struct ImageDraw {
  int64_t top = 0, left = 0;  // the crop's corner in the unpadded image; may be negative
  bool flip = false;
  float brightness = 0, contrast = 1;
  int64_t hole_y = 0, hole_x = 0;  // the pixel of the crop around which the cutout is
};

// The row or column of an image of this extent that a position in front of it or behind it shows as in a mirror at the
// centre of the edge pixel. REQUIRES: less than `extent` away.
constexpr int64_t Mirrored(int64_t at, int64_t extent) {
  if (at < 0) return -at;
  return at < extent ? at : 2 * (extent - 1) - at;
}

// Depends on the rule, epoch and index only.
constexpr ImageDraw DrawImage(const ImageRule& rule, int64_t epoch, int64_t index) {
  const int64_t room_y = rule.height + 2 * rule.pad - rule.out_height;
  const int64_t room_x = rule.width + 2 * rule.pad - rule.out_width;
  const auto words = Philox4x32(rule.key, static_cast<uint64_t>(epoch), 0);
  PhiloxStream random(uint64_t{words[1]} << 32 | words[0], static_cast<uint64_t>(index));
  ImageDraw draw;
  draw.top = rule.random_crop ? random.NextBelow(static_cast<uint32_t>(room_y + 1)) : room_y / 2;
  draw.left = rule.random_crop ? random.NextBelow(static_cast<uint32_t>(room_x + 1)) : room_x / 2;
  draw.top -= rule.pad;
  draw.left -= rule.pad;
  draw.flip = rule.random_flip && random.NextFloat() < 0.5f;
  if (rule.alternating_flip) {
    const uint32_t first = Philox4x32(rule.key, static_cast<uint64_t>(index), 1)[0] & 1;
    draw.flip = ((static_cast<uint64_t>(epoch) ^ first) & 1) != 0;
  }
  if (rule.brightness > 0) draw.brightness = (2 * random.NextFloat() - 1) * rule.brightness;
  const float range = rule.contrast_upper - rule.contrast_lower;
  draw.contrast = range > 0 ? rule.contrast_lower + random.NextFloat() * range : rule.contrast_lower;
  if (rule.cutout > 0) {
    draw.hole_y = random.NextBelow(static_cast<uint32_t>(rule.out_height));
    draw.hole_x = random.NextBelow(static_cast<uint32_t>(rule.out_width));
  }
  return draw;
}

// The preprocessing of one channel: output = byte * scale + bias.
struct ChannelAffine {
  double scale = 1, bias = 0;
};

// The numbers that the channels of an image share.
struct ImageMoments {
  double mean = 0, divisor = 1;
};

// Sums of a channel's bytes in the crop, and of their squares.
struct ByteSums {
  uint64_t values = 0, squares = 0;
};

// The mean and the divisor of all values, after contrast but without brightness, of an image that is normalised by its
// own. sums_of(c): the ByteSums of channel c.
template <class SumsOf>
constexpr ImageMoments MomentsOf(const ImageRule& rule, const ImageDraw& draw, const SumsOf& sums_of) {
  ImageMoments moments;
  if (!rule.per_image) return moments;
  const auto pixels = static_cast<double>(rule.pixels()), channels = static_cast<double>(rule.channels);
  const double contrast = draw.contrast;
  double square = 0;
  for (int64_t c = 0; c < rule.channels; ++c) {
    const ByteSums sums = sums_of(c);
    const double mean = static_cast<double>(sums.values) / pixels;
    const double variance = static_cast<double>(sums.squares) / pixels - mean * mean;
    moments.mean += mean;
    square += contrast * contrast * (variance > 0 ? variance : 0) + mean * mean;
  }
  moments.mean /= channels;
  const double variance = square / channels - moments.mean * moments.mean;
  const double deviation = std::sqrt(variance > 0 ? variance : 0), least = 1 / std::sqrt(pixels * channels);
  moments.divisor = deviation > least ? deviation : least;
  return moments;
}

// The map of a channel. Brightness shifts its mean along with its pixels, so contrast acts as if it came first. `mean`
// and `deviation`: the channel's, for the normalisation by channels.
constexpr ChannelAffine AffineOf(const ImageRule& rule, const ImageDraw& draw, const ImageMoments& moments,
                                 const ByteSums& sums, double mean, double deviation) {
  ChannelAffine affine{draw.contrast, draw.brightness};
  if (draw.contrast != 1) {
    affine.bias += (1 - affine.scale) * static_cast<double>(sums.values) / static_cast<double>(rule.pixels());
  }
  if (rule.per_image) {
    return {affine.scale / moments.divisor, (affine.bias - moments.mean - draw.brightness) / moments.divisor};
  }
  if (rule.per_channel) return {affine.scale / deviation, (affine.bias - mean) / deviation};
  return affine;
}

// True if the cutout covers pixel (y, x) of the crop.
constexpr bool IsCutOut(const ImageRule& rule, const ImageDraw& draw, int64_t y, int64_t x) {
  const int64_t top = draw.hole_y - rule.cutout / 2, left = draw.hole_x - rule.cutout / 2;
  return y >= top && y < top + rule.cutout && x >= left && x < left + rule.cutout;
}

}  // namespace belfry::data
