// Changes of convolutions, for tables of them.
#pragma once

#include <cstdint>

#include "ops/common/convolution_geometry.h"

namespace belfry::ops {

struct Pads {
  int64_t top, bottom, left, right;
};
constexpr ConvolutionGeometry Padded(ConvolutionGeometry shape, const Pads& pad) {
  shape.pad_top = pad.top;
  shape.pad_bottom = pad.bottom;
  shape.pad_left = pad.left;
  shape.pad_right = pad.right;
  return shape;
}
constexpr ConvolutionGeometry Strided(ConvolutionGeometry shape, int64_t h, int64_t w) {
  shape.stride_h = h;
  shape.stride_w = w;
  return shape;
}
constexpr ConvolutionGeometry Dilated(ConvolutionGeometry shape, int64_t h, int64_t w) {
  shape.dilation_h = h;
  shape.dilation_w = w;
  return shape;
}

}  // namespace belfry::ops
