#include "framework/data/pictures/picture_view.h"

#include <algorithm>
#include <cmath>

#include "framework/base/philox.h"

namespace belfry::data {
namespace {

// The box of the largest part with the ratio of an example, times `share`, in the middle.
PictureBox Central(const PictureOptions& options, int64_t height, int64_t width, double share) {
  const auto h = static_cast<double>(height), w = static_cast<double>(width);
  const double ratio = static_cast<double>(options.width) / static_cast<double>(options.height);
  const double box_height = share * std::min(h, w / ratio), box_width = share * std::min(w, h * ratio);
  PictureBox box;
  box.top = std::max(0.0, (h - box_height) / 2);
  box.left = std::max(0.0, (w - box_width) / 2);
  box.bottom = std::min(h, box.top + box_height);
  box.right = std::min(w, box.left + box_width);
  return box;
}

double Uniform(PhiloxStream& random, double from, double to) {
  const uint32_t high = random.Next(), low = random.Next();
  return from + UniformDouble(high, low) * (to - from);
}

// The box has whole pixels. A part that does not fit, as in a very long picture, is drawn again, and then taken from
// the middle with the nearest ratio.
PictureBox Draw(const RandomResizedCrop& crop, int64_t height, int64_t width, PhiloxStream& random) {
  constexpr int kTries = 10;
  const auto h = static_cast<double>(height), w = static_cast<double>(width);
  for (int i = 0; i < kTries; ++i) {
    const double area = h * w * Uniform(random, crop.min_area, crop.max_area);
    const double ratio = std::exp(Uniform(random, std::log(crop.min_ratio), std::log(crop.max_ratio)));
    const double box_width = std::round(std::sqrt(area * ratio)), box_height = std::round(std::sqrt(area / ratio));
    if (box_width < 1 || box_height < 1 || box_width > w || box_height > h) continue;
    const double top = random.NextBelow(static_cast<uint32_t>(h - box_height) + 1);
    const double left = random.NextBelow(static_cast<uint32_t>(w - box_width) + 1);
    return {top, left, top + box_height, left + box_width};
  }
  const double ratio = std::clamp(w / h, crop.min_ratio, crop.max_ratio);
  const double box_height = std::min(h, w / ratio), box_width = std::min(w, h * ratio);
  const double top = (h - box_height) / 2, left = (w - box_width) / 2;
  return {top, left, std::min(h, top + box_height), std::min(w, left + box_width)};
}

int Factor(PhiloxStream& random, double range) {
  const double drawn = Uniform(random, 1 - range, 1 + range);
  return range > 0 ? static_cast<int>(std::lround(drawn * kFactorOne)) : kFactorOne;
}

uint8_t Clamped(int64_t value) { return static_cast<uint8_t>(std::clamp<int64_t>(value, 0, 255)); }

// `from` and `value` blended: from + (value - from) factor, rounded.
uint8_t Blend(int from, int value, int factor) {
  return Clamped(from + ((value - from) * factor + kFactorOne / 2 - (value < from ? kFactorOne - 1 : 0)) / kFactorOne);
}

// Rec. 601's weights of red, green and blue.
int Grey(const uint8_t* rgb) { return (299 * rgb[0] + 587 * rgb[1] + 114 * rgb[2] + 500) / 1000; }

}  // namespace

PictureView DrawView(const PictureOptions& options, int64_t height, int64_t width, int64_t index,
                     const std::optional<Variation>& variation) {
  PictureView view{{}, kFactorOne, kFactorOne, kFactorOne};
  if (!variation.has_value()) {
    view.box = Central(options, height, width, options.random_crop.has_value() ? 1 : options.central);
    return view;
  }
  const uint64_t key = RandomKey(variation->seed, "pictures");
  const auto words = Philox4x32(key, static_cast<uint64_t>(variation->epoch), 0);
  PhiloxStream random(uint64_t{words[1]} << 32 | words[0], static_cast<uint64_t>(index));
  view.box = options.random_crop.has_value() ? Draw(*options.random_crop, height, width, random)
                                             : Central(options, height, width, options.central);
  view.brightness = Factor(random, options.jitter.brightness);
  view.contrast = Factor(random, options.jitter.contrast);
  view.saturation = Factor(random, options.jitter.saturation);
  return view;
}

void ChangeColours(const PictureView& view, int64_t pixels, int channels, uint8_t* values) {
  const int64_t count = pixels * channels;
  if (view.brightness != kFactorOne) {
    for (int64_t i = 0; i < count; ++i) values[i] = Blend(0, values[i], view.brightness);
  }
  if (view.contrast != kFactorOne && pixels > 0) {
    int64_t sum = 0;
    for (int64_t i = 0; i < pixels; ++i) sum += channels == 3 ? Grey(values + 3 * i) : values[i];
    const int mean = static_cast<int>((sum + pixels / 2) / pixels);
    for (int64_t i = 0; i < count; ++i) values[i] = Blend(mean, values[i], view.contrast);
  }
  if (view.saturation != kFactorOne && channels == 3) {
    for (int64_t i = 0; i < count; i += 3) {
      const int grey = Grey(values + i);
      for (int c = 0; c < 3; ++c) values[i + c] = Blend(grey, values[i + c], view.saturation);
    }
  }
}

}  // namespace belfry::data
