#include "framework/data/pictures/picture_view.h"

#include <algorithm>
#include <cmath>

#include "framework/base/philox.h"

namespace belfry::data {
namespace {

constexpr double kPi = 3.14159265358979323846;

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

// The matrix that turns the plane of I and Q, of NTSC's YIQ, which keeps the grey of each pixel.
void TurnHue(double angle, int (&matrix)[3][3]) {
  constexpr double kToYiq[3][3] = {{0.299, 0.587, 0.114}, {0.5959, -0.2746, -0.3213}, {0.2115, -0.5227, 0.3112}};
  constexpr double kFromYiq[3][3] = {{1, 0.956, 0.619}, {1, -0.272, -0.647}, {1, -1.106, 1.703}};
  const double cosine = std::cos(angle), sine = std::sin(angle);
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 3; ++j) {
      const double turned_i = cosine * kToYiq[1][j] - sine * kToYiq[2][j];
      const double turned_q = sine * kToYiq[1][j] + cosine * kToYiq[2][j];
      const double sum = kFromYiq[i][0] * kToYiq[0][j] + kFromYiq[i][1] * turned_i + kFromYiq[i][2] * turned_q;
      matrix[i][j] = static_cast<int>(std::lround(sum * kFactorOne));
    }
  }
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
  PictureView view;
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
  const double angle = Uniform(random, -options.rotation, options.rotation) * kPi / 180;
  view.turns = options.rotation > 0;
  view.cosine = static_cast<int>(std::lround(std::cos(angle) * kTurnOne));
  view.sine = static_cast<int>(std::lround(std::sin(angle) * kTurnOne));
  view.changes_hue = options.jitter.hue > 0;
  TurnHue(Uniform(random, -options.jitter.hue, options.jitter.hue) * 2 * kPi, view.hue);
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
  if (view.changes_hue && channels == 3) {
    for (int64_t i = 0; i < count; i += 3) {
      const int rgb[3] = {values[i], values[i + 1], values[i + 2]};
      for (int c = 0; c < 3; ++c) {
        const int* const row = view.hue[c];
        const int sum = row[0] * rgb[0] + row[1] * rgb[1] + row[2] * rgb[2] + kFactorOne / 2;
        values[i + c] = Clamped(sum < 0 ? 0 : sum / kFactorOne);
      }
    }
  }
}

}  // namespace belfry::data
