// The geometry of a two-dimensional convolution of NHWC images with HWIO filters.
#pragma once

#include <cstdint>
#include <string>

#include "framework/base/dtype.h"

namespace belfry::ops {

// The three convolutions of a layer.
enum class ConvolutionPass { kForward, kBackwardData, kBackwardWeights };

// x [n, h, w, c], filter [r, s, c / groups, k], y [n, out_h(), out_w(), k]. c and k are multiples of groups. Group g
// produces output channels [g k / groups, (g + 1) k / groups), so a depthwise filter [r, s, c, m] is the filter [r, s,
// 1, c m] with groups = c.
struct ConvolutionGeometry {
  int64_t n, h, w, c;
  int64_t k;
  int64_t r, s;
  int64_t stride_h = 1, stride_w = 1;
  int64_t pad_top = 0, pad_bottom = 0, pad_left = 0, pad_right = 0;
  int64_t dilation_h = 1, dilation_w = 1;  // 1: neighbouring taps
  int64_t groups = 1;
  DType dtype = DType::kFloat32;  // of x, y and the filter

  int64_t out_h() const { return (h + pad_top + pad_bottom - (r - 1) * dilation_h - 1) / stride_h + 1; }
  int64_t out_w() const { return (w + pad_left + pad_right - (s - 1) * dilation_w - 1) / stride_w + 1; }
  // "convolution float32 [128,24,24,3] * [5,5,3,64] stride 1x1 padding 2,2,2,2".
  std::string DebugString() const;
};

}  // namespace belfry::ops
