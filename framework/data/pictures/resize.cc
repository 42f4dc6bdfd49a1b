#include "framework/data/pictures/resize.h"

#include <algorithm>
#include <cmath>

#include "framework/base/check.h"

namespace belfry::data {
namespace {

// Weights are fixed-point numbers with kWeightBits, whose sum for each output is exactly 1; between the two passes,
// values have kRowBits. Products of 8 + kRowBits and kWeightBits bits, and their sums, fit into 32 bits.
constexpr int kWeightBits = 14, kRowBits = 6;

// For each output along one axis, the inputs that it is made of.
struct Taps {
  std::vector<int64_t> first, count;
  std::vector<int16_t> weights;  // `most` for each output
  int64_t most = 0;
};

Taps BilinearTaps(double begin, double end, int64_t inputs, int64_t outputs) {
  const double scale = (end - begin) / static_cast<double>(outputs), radius = std::max(scale, 1.0);
  Taps taps;
  taps.most = static_cast<int64_t>(std::ceil(radius)) * 2 + 1;
  taps.weights.assign(outputs * taps.most, 0);
  std::vector<double> exact(taps.most);
  for (int64_t i = 0; i < outputs; ++i) {
    const double centre = begin + (static_cast<double>(i) + 0.5) * scale;
    const auto first = std::clamp<int64_t>(static_cast<int64_t>(std::floor(centre - radius + 0.5)), 0, inputs - 1);
    const auto last = std::clamp<int64_t>(static_cast<int64_t>(std::floor(centre + radius + 0.5)), first + 1, inputs);
    const int64_t count = std::min(last - first, taps.most);
    double sum = 0;
    for (int64_t k = 0; k < count; ++k) {
      const double distance = std::abs(static_cast<double>(first + k) + 0.5 - centre) / radius;
      sum += exact[k] = std::max(0.0, 1 - distance);
    }
    int16_t* const weights = taps.weights.data() + i * taps.most;
    int rest = 1 << kWeightBits;
    int64_t largest = 0;
    for (int64_t k = 0; k < count; ++k) {
      const double share = sum > 0 ? exact[k] / sum : k == 0;
      weights[k] = static_cast<int16_t>(std::lround(share * (1 << kWeightBits)));
      rest -= weights[k];
      if (weights[k] > weights[largest]) largest = k;
    }
    weights[largest] = static_cast<int16_t>(weights[largest] + rest);
    taps.first.push_back(first);
    taps.count.push_back(count);
  }
  return taps;
}

// Rows come first: neighbours in a row are added with the same weight, many at once.
void ResizeRows(const io::Pixels& picture, const Taps& taps, int64_t left, int64_t columns, int16_t* to) {
  const int64_t values = columns * picture.channels, row = picture.width * picture.channels;
  constexpr int64_t kBlock = 256;
  int32_t sums[kBlock];
  for (size_t i = 0; i < taps.first.size(); ++i) {
    const uint8_t* const from = picture.values + taps.first[i] * row + left * picture.channels;
    const int16_t* const weights = taps.weights.data() + static_cast<int64_t>(i) * taps.most;
    for (int64_t at = 0; at < values; at += kBlock) {
      const int64_t size = std::min(kBlock, values - at);
      std::fill_n(sums, size, 1 << (kWeightBits - kRowBits - 1));
      for (int64_t k = 0; k < taps.count[i]; ++k) {
        const uint8_t* const x = from + k * row + at;
        const int32_t weight = weights[k];
        for (int64_t j = 0; j < size; ++j) sums[j] += weight * x[j];
      }
      for (int64_t j = 0; j < size; ++j) to[at + j] = static_cast<int16_t>(sums[j] >> (kWeightBits - kRowBits));
    }
    to += values;
  }
}

template <int channels>
void ResizeColumns(const int16_t* from, int64_t height, int64_t columns, const Taps& taps, uint8_t* to) {
  constexpr int kBits = kWeightBits + kRowBits;
  for (int64_t y = 0; y < height; ++y, from += columns * channels) {
    for (size_t i = 0; i < taps.first.size(); ++i, to += channels) {
      const int16_t* const x = from + taps.first[i] * channels;
      const int16_t* const weights = taps.weights.data() + static_cast<int64_t>(i) * taps.most;
      int32_t sums[channels];
      for (int c = 0; c < channels; ++c) sums[c] = 1 << (kBits - 1);
      for (int64_t k = 0; k < taps.count[i]; ++k) {
        for (int c = 0; c < channels; ++c) sums[c] += weights[k] * x[k * channels + c];
      }
      for (int c = 0; c < channels; ++c) to[c] = static_cast<uint8_t>(sums[c] >> kBits);
    }
  }
}

int64_t NearestInput(double begin, double end, int64_t inputs, int64_t outputs, int64_t i) {
  const double at = begin + (static_cast<double>(i) + 0.5) * (end - begin) / static_cast<double>(outputs);
  return std::clamp<int64_t>(static_cast<int64_t>(std::floor(at)), 0, inputs - 1);
}

}  // namespace

void ResizePicture(const io::Pixels& picture, const PictureBox& box, int64_t height, int64_t width, Resampling how,
                   uint8_t* to, ResizeScratch& scratch) {
  BELFRY_CHECK(0 <= box.top && box.top < box.bottom && box.bottom <= static_cast<double>(picture.height));
  BELFRY_CHECK(0 <= box.left && box.left < box.right && box.right <= static_cast<double>(picture.width));
  const int channels = picture.channels;
  if (how == Resampling::kNearest) {
    for (int64_t y = 0; y < height; ++y) {
      const int64_t row = NearestInput(box.top, box.bottom, picture.height, height, y) * picture.width;
      for (int64_t x = 0; x < width; ++x, to += channels) {
        const int64_t column = NearestInput(box.left, box.right, picture.width, width, x);
        std::copy_n(picture.values + (row + column) * channels, channels, to);
      }
    }
    return;
  }
  const Taps rows = BilinearTaps(box.top, box.bottom, picture.height, height);
  Taps columns = BilinearTaps(box.left, box.right, picture.width, width);
  // Only the columns that some output needs pass through the first pass.
  const int64_t left = columns.first.front(), right = columns.first.back() + columns.count.back();
  for (int64_t& first : columns.first) first -= left;
  scratch.rows.resize(height * (right - left) * channels);
  ResizeRows(picture, rows, left, right - left, scratch.rows.data());
  channels == 3 ? ResizeColumns<3>(scratch.rows.data(), height, right - left, columns, to)
                : ResizeColumns<1>(scratch.rows.data(), height, right - left, columns, to);
}

// Positions are in units of 1 / (2 kTurnOne) pixels, twice as fine as cosines, because middles lie between pixels.
void TurnPicture(int cosine, int sine, int64_t height, int64_t width, int channels, Resampling how, uint8_t* values,
                 ResizeScratch& scratch) {
  constexpr int kUnitBits = 15, kBits = 8;  // of a pixel, and of weights
  constexpr int64_t kUnit = 2 * kTurnOne;
  static_assert(kUnit == 1 << kUnitBits);
  const int64_t count = height * width * channels;
  scratch.upright.assign(values, values + count);
  const uint8_t* const from = scratch.upright.data();
  const auto value = [&](int64_t y, int64_t x, int c) -> int64_t {
    return y >= 0 && y < height && x >= 0 && x < width ? from[(y * width + x) * channels + c] : 0;
  };
  for (int64_t y = 0; y < height; ++y) {
    for (int64_t x = 0; x < width; ++x, values += channels) {
      // Twice the distance from the middle, turned back.
      const int64_t down = 2 * y - (height - 1), right = 2 * x - (width - 1);
      const int64_t source_y = (height - 1) * kTurnOne + down * cosine + right * sine;
      const int64_t source_x = (width - 1) * kTurnOne + right * cosine - down * sine;
      if (how == Resampling::kNearest) {
        const int64_t nearest_y = (source_y + kTurnOne) >> kUnitBits, nearest_x = (source_x + kTurnOne) >> kUnitBits;
        for (int c = 0; c < channels; ++c) values[c] = static_cast<uint8_t>(value(nearest_y, nearest_x, c));
        continue;
      }
      const int64_t top = source_y >> kUnitBits, left = source_x >> kUnitBits;
      const int64_t low = (source_y - top * kUnit) >> (kUnitBits - kBits),
                    far = (source_x - left * kUnit) >> (kUnitBits - kBits);
      const int64_t high = (1 << kBits) - low, near = (1 << kBits) - far;
      for (int c = 0; c < channels; ++c) {
        const int64_t sum = high * (near * value(top, left, c) + far * value(top, left + 1, c)) +
                            low * (near * value(top + 1, left, c) + far * value(top + 1, left + 1, c));
        values[c] = static_cast<uint8_t>((sum + (1 << (2 * kBits - 1))) >> (2 * kBits));
      }
    }
  }
}

}  // namespace belfry::data
