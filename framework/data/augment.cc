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

struct Sums {
  uint64_t values = 0, squares = 0;
};

// Exact integer sums. A block of 2^15 squares of bytes fits in 32 bits, so the inner loop can run in 32-bit lanes.
Sums SumsOf(const uint8_t* bytes, int64_t n) {
  constexpr int64_t kBlock = 1 << 15;
  Sums sums;
  for (int64_t start = 0; start < n; start += kBlock) {
    uint32_t values = 0, squares = 0;
    for (int64_t i = start; i < std::min(n, start + kBlock); ++i) {
      const uint32_t value = bytes[i];
      values += value;
      squares += value * value;
    }
    sums.values += values;
    sums.squares += squares;
  }
  return sums;
}

void InterleaveThree(const uint8_t* planes, int64_t n, const float* scale, const float* bias, float* output) {
  const uint8_t *r = planes, *g = planes + n, *b = planes + 2 * n;
  const float r_scale = scale[0], g_scale = scale[1], b_scale = scale[2];
  const float r_bias = bias[0], g_bias = bias[1], b_bias = bias[2];
  for (int64_t i = 0; i < n; ++i) {
    output[3 * i] = static_cast<float>(r[i]) * r_scale + r_bias;
    output[3 * i + 1] = static_cast<float>(g[i]) * g_scale + g_bias;
    output[3 * i + 2] = static_cast<float>(b[i]) * b_scale + b_bias;
  }
}

// Turns `channels` planes of n bytes into n interleaved float pixels.
void Interleave(const uint8_t* planes, int64_t n, int64_t channels, const float* scale, const float* bias,
                float* output) {
  if (channels == 3) return InterleaveThree(planes, n, scale, bias, output);
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t i = 0; i < n; ++i)
      output[i * channels + c] = static_cast<float>(planes[c * n + i]) * scale[c] + bias[c];
  }
}

absl::Status CheckPolicy(const ExampleSpec& spec, const ImagePolicy& policy) {
  if (!spec.is_image() || spec.shape.rank() != 3) {
    return absl::InvalidArgumentError(absl::StrCat("an image policy needs uint8 images [H,W,C]; the examples are ",
                                                   DTypeName(spec.dtype), " ", spec.shape.ToString()));
  }
  if (policy.pad < 0 || policy.crop < 0 || policy.crop > std::min(spec.shape[0], spec.shape[1]) + 2 * policy.pad) {
    return absl::InvalidArgumentError(absl::StrCat("a crop of ", policy.crop, "x", policy.crop, " after padding by ",
                                                   policy.pad, " does not fit images of ", spec.shape.ToString()));
  }
  // Phrased so that NaN fails the test.
  if (!(policy.brightness >= 0 && std::isfinite(policy.brightness) && policy.contrast_lower >= 0 &&
        policy.contrast_lower <= policy.contrast_upper && std::isfinite(policy.contrast_upper))) {
    return absl::InvalidArgumentError(absl::StrCat("brightness ", policy.brightness, ", contrast [",
                                                   policy.contrast_lower, ", ", policy.contrast_upper,
                                                   "); expected brightness >= 0 and 0 <= lower <= upper"));
  }
  if (policy.normalise != ImagePolicy::Normalise::kPerChannel) return absl::OkStatus();
  const auto channels = static_cast<size_t>(spec.shape[2]);
  if (policy.mean.size() != channels || policy.deviation.size() != channels) {
    return absl::InvalidArgumentError(absl::StrCat("per-channel normalisation has ", policy.mean.size(), " means and ",
                                                   policy.deviation.size(), " deviations for ", channels, " channels"));
  }
  for (size_t c = 0; c < channels; ++c) {
    if (std::isfinite(policy.mean[c]) && policy.deviation[c] > 0 && std::isfinite(policy.deviation[c])) continue;
    return absl::InvalidArgumentError(absl::StrCat("channel ", c, " has mean ", policy.mean[c], " and deviation ",
                                                   policy.deviation[c], "; expected a positive deviation"));
  }
  return absl::OkStatus();
}

}  // namespace

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

ImagePolicy ResNetEvaluation(const ChannelStatistics& statistics) {
  return {.normalise = ImagePolicy::Normalise::kPerChannel, .mean = statistics.mean, .deviation = statistics.deviation};
}

absl::StatusOr<ChannelStatistics> ComputeChannelStatistics(const Dataset& dataset) {
  const ExampleSpec& spec = dataset.spec();
  if (!spec.is_image() || dataset.size() == 0) {
    return absl::InvalidArgumentError("channel statistics need at least one image");
  }
  const int64_t channels = spec.shape[2], pixels = spec.shape[0] * spec.shape[1];
  std::vector<std::byte> scratch(spec.input_bytes());
  std::vector<uint8_t> plane(pixels);
  std::vector<Sums> totals(channels);
  for (int64_t i = 0; i < dataset.size(); ++i) {
    Example example;
    RETURN_IF_ERROR(dataset.Read(i, absl::MakeSpan(scratch), example));
    const auto* bytes = static_cast<const uint8_t*>(example.input);
    for (int64_t c = 0; c < channels; ++c) {
      const uint8_t* values = bytes + c * pixels;
      if (spec.layout == PixelLayout::kInterleaved) {
        for (int64_t p = 0; p < pixels; ++p) plane[p] = bytes[p * channels + c];
        values = plane.data();
      }
      const Sums sums = SumsOf(values, pixels);
      totals[c].values += sums.values;
      totals[c].squares += sums.squares;
    }
  }
  ChannelStatistics statistics;
  const double n = static_cast<double>(pixels) * static_cast<double>(dataset.size());
  for (const Sums& sums : totals) {
    const double mean = static_cast<double>(sums.values) / n;
    statistics.mean.push_back(static_cast<float>(mean));
    statistics.deviation.push_back(
        static_cast<float>(std::sqrt(std::max(0.0, static_cast<double>(sums.squares) / n - mean * mean))));
  }
  return statistics;
}

absl::StatusOr<Augmenter> Augmenter::Create(const ExampleSpec& spec, ImagePolicy policy, uint64_t seed) {
  RETURN_IF_ERROR(CheckPolicy(spec, policy));
  Augmenter augmenter;
  augmenter.key_ = RandomKey(seed, "augmentation");
  augmenter.height_ = spec.shape[0];
  augmenter.width_ = spec.shape[1];
  augmenter.channels_ = spec.shape[2];
  augmenter.out_height_ = policy.crop > 0 ? policy.crop : spec.shape[0] + 2 * policy.pad;
  augmenter.out_width_ = policy.crop > 0 ? policy.crop : spec.shape[1] + 2 * policy.pad;
  const bool planes = spec.layout == PixelLayout::kPlanes;
  augmenter.plane_stride_ = planes ? spec.shape[0] * spec.shape[1] : 1;
  augmenter.pixel_stride_ = planes ? 1 : spec.shape[2];
  augmenter.row_stride_ = spec.shape[1] * augmenter.pixel_stride_;
  augmenter.output_shape_ = Shape{augmenter.out_height_, augmenter.out_width_, augmenter.channels_};
  augmenter.cut_.resize(augmenter.output_shape_.elements());
  augmenter.affine_.resize(augmenter.channels_);
  augmenter.scale_.resize(augmenter.channels_);
  augmenter.bias_.resize(augmenter.channels_);
  augmenter.policy_ = std::move(policy);
  return augmenter;
}

Augmenter::Draw Augmenter::DrawFor(int64_t epoch, int64_t index) const {
  const int64_t room_y = height_ + 2 * policy_.pad - out_height_, room_x = width_ + 2 * policy_.pad - out_width_;
  const auto words = Philox4x32(key_, static_cast<uint64_t>(epoch), 0);
  PhiloxStream random(uint64_t{words[1]} << 32 | words[0], static_cast<uint64_t>(index));
  Draw draw;
  draw.top = policy_.random_crop ? random.NextBelow(static_cast<uint32_t>(room_y + 1)) : room_y / 2;
  draw.left = policy_.random_crop ? random.NextBelow(static_cast<uint32_t>(room_x + 1)) : room_x / 2;
  draw.top -= policy_.pad;
  draw.left -= policy_.pad;
  draw.flip = policy_.random_flip && random.NextFloat() < 0.5f;
  if (policy_.brightness > 0) draw.brightness = (2 * random.NextFloat() - 1) * policy_.brightness;
  const float range = policy_.contrast_upper - policy_.contrast_lower;
  draw.contrast = range > 0 ? policy_.contrast_lower + random.NextFloat() * range : policy_.contrast_lower;
  return draw;
}

void Augmenter::CutOut(const uint8_t* image, const Draw& draw) {
  // The columns [first, last) of the crop lie inside the image.
  const int64_t first = std::clamp<int64_t>(-draw.left, 0, out_width_);
  const int64_t last = std::clamp<int64_t>(width_ - draw.left, first, out_width_);
  uint8_t* to = cut_.data();
  for (int64_t c = 0; c < channels_; ++c) {
    for (int64_t y = 0; y < out_height_; ++y, to += out_width_) {
      const int64_t from_y = draw.top + y;
      if (from_y < 0 || from_y >= height_) {
        std::memset(to, 0, out_width_);
        continue;
      }
      const uint8_t* from = image + c * plane_stride_ + from_y * row_stride_ + draw.left * pixel_stride_;
      std::memset(to, 0, first);
      std::memset(to + last, 0, out_width_ - last);
      if (pixel_stride_ == 1) {
        std::memcpy(to + first, from + first, last - first);
      } else {
        for (int64_t x = first; x < last; ++x) to[x] = from[x * pixel_stride_];
      }
      if (draw.flip) std::reverse(to, to + out_width_);
    }
  }
}

void Augmenter::FindAffine(const Draw& draw) {
  const int64_t pixels = out_height_ * out_width_;
  const double contrast = draw.contrast;
  const bool per_image = policy_.normalise == ImagePolicy::Normalise::kPerImage;
  double mean = 0, square = 0;  // over all values, after contrast but without brightness
  for (int64_t c = 0; c < channels_; ++c) {
    affine_[c] = {contrast, draw.brightness};
    if (contrast == 1 && !per_image) continue;
    // Brightness shifts the channel's mean along with its pixels, so contrast acts as if it came first.
    const Sums sums = SumsOf(cut_.data() + c * pixels, pixels);
    const double channel_mean = static_cast<double>(sums.values) / static_cast<double>(pixels);
    const double variance =
        static_cast<double>(sums.squares) / static_cast<double>(pixels) - channel_mean * channel_mean;
    affine_[c].bias += (1 - contrast) * channel_mean;
    mean += channel_mean;
    square += contrast * contrast * std::max(0.0, variance) + channel_mean * channel_mean;
  }
  if (per_image) {
    const auto channels = static_cast<double>(channels_);
    mean /= channels;
    const double deviation = std::sqrt(std::max(0.0, square / channels - mean * mean));
    const double divisor = std::max(deviation, 1 / std::sqrt(static_cast<double>(pixels) * channels));
    for (Affine& affine : affine_) {
      affine = {affine.scale / divisor, (affine.bias - mean - draw.brightness) / divisor};
    }
  } else if (policy_.normalise == ImagePolicy::Normalise::kPerChannel) {
    for (int64_t c = 0; c < channels_; ++c) {
      const double deviation = policy_.deviation[c];
      affine_[c] = {affine_[c].scale / deviation, (affine_[c].bias - policy_.mean[c]) / deviation};
    }
  }
}

void Augmenter::Apply(const uint8_t* image, int64_t epoch, int64_t index, float* output) {
  const Draw draw = DrawFor(epoch, index);
  CutOut(image, draw);
  FindAffine(draw);
  for (int64_t c = 0; c < channels_; ++c) {
    scale_[c] = static_cast<float>(affine_[c].scale);
    bias_[c] = static_cast<float>(affine_[c].bias);
  }
  Interleave(cut_.data(), out_height_ * out_width_, channels_, scale_.data(), bias_.data(), output);
}

}  // namespace belfry::data
