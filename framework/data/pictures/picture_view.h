// The part of a picture that an example shows, and its changes of colour. Internal.
#pragma once

#include <cstdint>
#include <optional>

#include "framework/data/dataset.h"
#include "framework/data/pictures/pictures.h"
#include "framework/data/pictures/resize.h"

namespace belfry::data {

// The part of a picture that an example shows, how it is turned, and its changes of colour.
inline constexpr int kFactorOne = 1 << 12;  // the unit of factors is 1 / kFactorOne
struct PictureView {
  PictureBox box = {};
  bool turns = false, changes_hue = false;
  int cosine = kTurnOne, sine = 0;  // TurnPicture
  int brightness = kFactorOne, contrast = kFactorOne, saturation = kFactorOne;
  int hue[3][3] = {};  // the matrix from old to new values
};

// Draws the view of a picture of height x width pixels. Without a variation nothing is random.
PictureView DrawView(const PictureOptions& options, int64_t height, int64_t width, int64_t index,
                     const std::optional<Variation>& variation);

// Changes the colours of [height, width, channels] in place, in integers.
void ChangeColours(const PictureView& view, int64_t pixels, int channels, uint8_t* values);

}  // namespace belfry::data
