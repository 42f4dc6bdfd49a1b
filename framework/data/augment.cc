#include "framework/data/augment.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/check.h"
#include "framework/base/philox.h"
#include "framework/base/status.h"

namespace belfry::data {
namespace {

// Copies `n` pixels of kPixel bytes in the reverse order.
template <int64_t kPixel>
void CopyReversed(const uint8_t* from, int64_t n, uint8_t* to) {
  for (int64_t x = 0; x < n; ++x) std::memcpy(to + (n - 1 - x) * kPixel, from + x * kPixel, kPixel);
}
void CopyReversed(const uint8_t* from, int64_t n, int64_t pixel, uint8_t* to) {
  if (pixel == 1) return CopyReversed<1>(from, n, to);
  if (pixel == 3) return CopyReversed<3>(from, n, to);
  for (int64_t x = 0; x < n; ++x) std::memcpy(to + (n - 1 - x) * pixel, from + x * pixel, pixel);
}

absl::Status CheckStatistics(const Field& images, const ImagePolicy& policy) {
  const bool per_pixel = policy.normalise == ImagePolicy::Normalise::kPerPixel;
  if (!per_pixel && policy.normalise != ImagePolicy::Normalise::kPerChannel) return absl::OkStatus();
  const auto channels = static_cast<size_t>(images.shape[2]);
  const size_t means = per_pixel ? static_cast<size_t>(images.shape.elements()) : channels;
  if (policy.mean.size() != means || policy.deviation.size() != channels) {
    return absl::InvalidArgumentError(
        absl::StrCat(per_pixel ? "per-pixel" : "per-channel", " normalisation has ", policy.mean.size(), " means and ",
                     policy.deviation.size(), " deviations for ", per_pixel ? absl::StrCat(means, " values in ") : "",
                     channels, " channels"));
  }
  for (size_t i = 0; i < means; ++i) {
    const float deviation = policy.deviation[i % channels];
    if (std::isfinite(policy.mean[i]) && deviation > 0 && std::isfinite(deviation)) continue;
    return absl::InvalidArgumentError(absl::StrCat(per_pixel ? "value " : "channel ", i, " has mean ", policy.mean[i],
                                                   " and deviation ", deviation, "; expected a positive deviation"));
  }
  return absl::OkStatus();
}

absl::Status CheckPolicy(const Field& images, const ImagePolicy& policy) {
  if (!HoldsImages(images)) {
    return absl::InvalidArgumentError(
        absl::StrCat("an image policy needs uint8 images [H,W,C]; the field is ", images.ToString()));
  }
  constexpr int64_t kMaxPad = 1 << 15;
  constexpr double kMaxValues = 0x1p28;
  const int64_t edge = std::max(images.shape[0], images.shape[1]);
  if (policy.pad > kMaxPad ||
      (policy.pad > 0 &&
       static_cast<double>(edge + 2 * policy.pad) * static_cast<double>((edge + 2 * policy.pad) * images.shape[2]) >
           kMaxValues)) {
    return absl::InvalidArgumentError(absl::StrCat("padding images of ", images.shape.ToString(), " by ", policy.pad,
                                                   " on each side makes them larger than 2^28 values"));
  }
  if (policy.pad < 0 || policy.crop < 0 || policy.crop > std::min(images.shape[0], images.shape[1]) + 2 * policy.pad) {
    return absl::InvalidArgumentError(absl::StrCat("a crop of ", policy.crop, "x", policy.crop, " after padding by ",
                                                   policy.pad, " does not fit images of ", images.shape.ToString()));
  }
  if (policy.reflect && policy.pad >= std::min(images.shape[0], images.shape[1])) {
    return absl::InvalidArgumentError(absl::StrCat("images of ", images.shape.ToString(), " have no mirror image of ",
                                                   policy.pad, " pixels on each side"));
  }
  if (policy.random_flip && policy.alternating_flip) {
    return absl::InvalidArgumentError("random_flip and alternating_flip exclude each other");
  }
  // Phrased so that NaN fails the test.
  if (!(policy.brightness >= 0 && std::isfinite(policy.brightness) && policy.contrast_lower >= 0 &&
        policy.contrast_lower <= policy.contrast_upper && std::isfinite(policy.contrast_upper))) {
    return absl::InvalidArgumentError(absl::StrCat("brightness ", policy.brightness, ", contrast [",
                                                   policy.contrast_lower, ", ", policy.contrast_upper,
                                                   "); expected brightness >= 0 and 0 <= lower <= upper"));
  }
  const int64_t most = policy.crop > 0 ? policy.crop : std::min(images.shape[0], images.shape[1]) + 2 * policy.pad;
  if (policy.cutout < 0 || policy.cutout > most) {
    return absl::InvalidArgumentError(absl::StrCat("a cutout of ", policy.cutout, "x", policy.cutout,
                                                   "; expected at most ", most, ", or 0 for none"));
  }
  return CheckStatistics(images, policy);
}

}  // namespace

bool HoldsImages(const Field& field) { return field.dtype == DType::kUInt8 && field.shape.rank() == 3; }

ImagePolicy TutorialTraining() {
  return {.crop = 24,
          .random_crop = true,
          .random_flip = true,
          .brightness = 63,
          .contrast_lower = 0.2f,
          .contrast_upper = 1.8f,
          .normalise = ImagePolicy::Normalise::kPerImage};
}

ImagePolicy TutorialEvaluation() { return {.crop = 24, .normalise = ImagePolicy::Normalise::kPerImage}; }

ImagePolicy ResNetTraining(const ChannelStatistics& statistics) {
  ImagePolicy policy = ResNetEvaluation(statistics);
  policy.pad = 4;
  policy.crop = 32;
  policy.random_crop = policy.random_flip = true;
  return policy;
}

ImagePolicy SpeedrunTraining(const ChannelStatistics& statistics) {
  ImagePolicy policy = ResNetEvaluation(statistics);
  policy.pad = 2;
  policy.crop = 32;
  policy.reflect = policy.random_crop = policy.alternating_flip = true;
  return policy;
}

ImagePolicy ResNetEvaluation(const ChannelStatistics& statistics) {
  return {.normalise = ImagePolicy::Normalise::kPerChannel, .mean = statistics.mean, .deviation = statistics.deviation};
}

ChannelSums::ChannelSums(int64_t row, int64_t channels)
    : row_values_(row), row_squares_(row), values_(channels), squares_(channels) {}

void ChannelSums::Clear() {
  std::fill(values_.begin(), values_.end(), 0);
  std::fill(squares_.begin(), squares_.end(), 0);
}

// Sums of the squares of 2^16 bytes fit in 32 bits.
void ChannelSums::Add(const uint8_t* bytes, int64_t rows) {
  constexpr int64_t kBlock = 1 << 16;
  const size_t row = row_values_.size(), channels = values_.size();
  uint32_t* const values = row_values_.data();
  uint32_t* const squares = row_squares_.data();
  for (int64_t start = 0; start < rows; start += kBlock) {
    std::fill(row_values_.begin(), row_values_.end(), 0);
    std::fill(row_squares_.begin(), row_squares_.end(), 0);
    for (int64_t y = start; y < std::min(rows, start + kBlock); ++y, bytes += row) {
      for (size_t i = 0; i < row; ++i) {
        const uint32_t value = bytes[i];
        values[i] += value;
        squares[i] += value * value;
      }
    }
    for (size_t i = 0; i < row; i += channels) {
      for (size_t c = 0; c < channels; ++c) {
        values_[c] += values[i + c];
        squares_[c] += squares[i + c];
      }
    }
  }
}

absl::StatusOr<Augmenter> Augmenter::Create(const Field& images, ImagePolicy policy, uint64_t seed) {
  RETURN_IF_ERROR(CheckPolicy(images, policy));
  Augmenter augmenter;
  const bool cropped = policy.crop > 0, per_pixel = policy.normalise == ImagePolicy::Normalise::kPerPixel;
  ImageRule& rule = augmenter.rule_;
  rule = {.height = images.shape[0],
          .width = images.shape[1],
          .channels = images.shape[2],
          .out_height = cropped ? policy.crop : images.shape[0] + 2 * policy.pad,
          .out_width = cropped ? policy.crop : images.shape[1] + 2 * policy.pad,
          .pad = policy.pad,
          .cutout = policy.cutout,
          .reflect = policy.reflect,
          .random_crop = policy.random_crop,
          .random_flip = policy.random_flip,
          .alternating_flip = policy.alternating_flip,
          .per_image = policy.normalise == ImagePolicy::Normalise::kPerImage,
          .per_channel = policy.normalise == ImagePolicy::Normalise::kPerChannel || per_pixel,
          .brightness = policy.brightness,
          .contrast_lower = policy.contrast_lower,
          .contrast_upper = policy.contrast_upper,
          .key = RandomKey(seed, "augmentation")};
  augmenter.output_shape_ = Shape{rule.out_height, rule.out_width, rule.channels};
  augmenter.cut_.resize(augmenter.output_shape_.elements());
  const int64_t row = rule.out_width * rule.channels;
  augmenter.sums_ = ChannelSums(row, rule.channels);
  if (rule.reflect) augmenter.columns_.resize(rule.out_width);
  if (per_pixel) augmenter.mean_cut_.resize(augmenter.output_shape_.elements());
  augmenter.scale_.resize(row);
  augmenter.bias_.resize(row);
  augmenter.policy_ = std::move(policy);
  return augmenter;
}

void Augmenter::Crop(const uint8_t* image, int64_t pixel, const ImageDraw& draw, uint8_t* to) {
  if (rule_.reflect) {
    for (int64_t x = 0; x < rule_.out_width; ++x) {
      columns_[x] = Mirrored(draw.left + (draw.flip ? rule_.out_width - 1 - x : x), rule_.width) * pixel;
    }
    for (int64_t y = 0; y < rule_.out_height; ++y) {
      const uint8_t* const from = image + Mirrored(draw.top + y, rule_.height) * rule_.width * pixel;
      for (const int64_t column : columns_) {
        for (int64_t i = 0; i < pixel; ++i) *to++ = from[column + i];
      }
    }
    return;
  }
  // The columns [first, last) of the crop lie inside the image.
  const int64_t first = std::clamp<int64_t>(-draw.left, 0, rule_.out_width);
  const int64_t last = std::clamp<int64_t>(rule_.width - draw.left, first, rule_.out_width);
  const int64_t row = rule_.out_width * pixel, inside = last - first;
  // Flipping puts the columns in front of the image behind it.
  const int64_t before = (draw.flip ? rule_.out_width - last : first) * pixel, end = before + inside * pixel;
  for (int64_t y = 0; y < rule_.out_height; ++y, to += row) {
    const int64_t from_y = draw.top + y;
    if (from_y < 0 || from_y >= rule_.height) {
      std::memset(to, 0, row);
      continue;
    }
    const uint8_t* from = image + (from_y * rule_.width + draw.left + first) * pixel;
    std::memset(to, 0, before);
    std::memset(to + end, 0, row - end);
    if (draw.flip) {
      CopyReversed(from, inside, pixel, to + before);
    } else {
      std::memcpy(to + before, from, inside * pixel);
    }
  }
}

void Augmenter::FindAffine(const ImageDraw& draw) {
  if (rule_.needs_sums()) {
    sums_.Clear();
    sums_.Add(cut_.data(), rule_.out_height);
  }
  const auto sums_of = [this](int64_t c) { return ByteSums{sums_.values(c), sums_.squares(c)}; };
  const ImageMoments moments = MomentsOf(rule_, draw, sums_of);
  const int64_t row = rule_.out_width * rule_.channels;
  for (int64_t c = 0; c < rule_.channels; ++c) {
    const double mean = rule_.per_channel && mean_cut_.empty() ? policy_.mean[c] : 0,
                 deviation = rule_.per_channel ? policy_.deviation[c] : 1;
    const ChannelAffine affine = AffineOf(rule_, draw, moments, sums_of(c), mean, deviation);
    for (int64_t i = c; i < row; i += rule_.channels) {
      scale_[i] = static_cast<float>(affine.scale);
      bias_[i] = static_cast<float>(affine.bias);
    }
  }
}

// The means are cropped as the image is, with means of 0 in black padding.
void Augmenter::SubtractMeans(const ImageDraw& draw, float* output) {
  constexpr auto kBytes = static_cast<int64_t>(sizeof(float));
  Crop(reinterpret_cast<const uint8_t*>(policy_.mean.data()), rule_.channels * kBytes, draw,
       reinterpret_cast<uint8_t*>(mean_cut_.data()));
  for (size_t i = 0; i < mean_cut_.size(); ++i) output[i] -= mean_cut_[i] / policy_.deviation[i % rule_.channels];
}

void Augmenter::CutOut(const ImageDraw& draw, float* output) const {
  const int64_t size = policy_.cutout, top = draw.hole_y - size / 2, left = draw.hole_x - size / 2;
  const int64_t first = std::max<int64_t>(left, 0), last = std::min(left + size, rule_.out_width);
  for (int64_t y = std::max<int64_t>(top, 0); y < std::min(top + size, rule_.out_height); ++y) {
    std::fill(output + (y * rule_.out_width + first) * rule_.channels,
              output + (y * rule_.out_width + last) * rule_.channels, 0.0f);
  }
}

void Augmenter::Apply(const uint8_t* image, int64_t epoch, int64_t index, float* output) {
  const ImageDraw draw = DrawImage(rule_, epoch, index);
  Crop(image, rule_.channels, draw, cut_.data());
  FindAffine(draw);
  const int64_t row = rule_.out_width * rule_.channels;
  const uint8_t* from = cut_.data();
  const float *const scale = scale_.data(), *const bias = bias_.data();
  float* to = output;
  for (int64_t y = 0; y < rule_.out_height; ++y, from += row, to += row) {
    for (int64_t i = 0; i < row; ++i) to[i] = static_cast<float>(from[i]) * scale[i] + bias[i];
  }
  if (!mean_cut_.empty()) SubtractMeans(draw, output);
  if (policy_.cutout > 0) CutOut(draw, output);
}

}  // namespace belfry::data
