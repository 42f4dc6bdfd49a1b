// Cutting a part out of a picture, giving it another size, and turning it.
#pragma once

#include <cstdint>
#include <vector>

#include "framework/io/pictures/picture.h"

namespace belfry::data {

// A part of a picture, in pixels from its upper left corner; fractions of pixels are allowed.
struct PictureBox {
  double top = 0, left = 0, bottom = 0, right = 0;
};

enum class Resampling : uint8_t {
  kBilinear,  // a triangle as wide as an output pixel, and at least as wide as an input pixel, so that what is made
              // smaller does not alias: PIL's "bilinear"
  kNearest    // the pixel at the centre: for masks, whose values must not be mixed
};

// Scratch memory for these functions, reused from call to call.
struct ResizeScratch {
  std::vector<int16_t> rows;
  std::vector<uint8_t> upright;
};

// Writes the part `box` of `picture` as [height, width, channels] to `to`. In integers, so it has the same bits on
// every machine. REQUIRES: the box lies in the picture and is not empty; height, width >= 1.
void ResizePicture(const io::Pixels& picture, const PictureBox& box, int64_t height, int64_t width, Resampling how,
                   uint8_t* to, ResizeScratch& scratch);

// Turns [height, width, channels] in place around its middle, anticlockwise by an angle whose cosine and sine are in
// units of 1 / kTurnOne. What was outside becomes 0. In integers.
inline constexpr int kTurnOne = 1 << 14;
void TurnPicture(int cosine, int sine, int64_t height, int64_t width, int channels, Resampling how, uint8_t* values,
                 ResizeScratch& scratch);

}  // namespace belfry::data
