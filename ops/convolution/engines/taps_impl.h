// The part of an image that a tap of a filter reads. Internal.
#pragma once

#include <algorithm>
#include <cstdint>

#include "ops/common/convolution_geometry.h"

namespace belfry::ops {

struct Interval {
  int64_t begin, end;
  int64_t size() const { return std::max<int64_t>(end - begin, 0); }
};

// The outputs whose input for tap `tap` is on the image, along one axis.
inline Interval OnImage(int64_t outputs, int64_t inputs, int64_t stride, int64_t pad, int64_t tap, int64_t dilation) {
  const int64_t offset = pad - tap * dilation;  // the input is output * stride - offset
  const int64_t begin = offset > 0 ? (offset + stride - 1) / stride : 0;
  const int64_t last = inputs - 1 + offset;
  return {begin, last < 0 ? 0 : std::min(outputs, last / stride + 1)};
}

// Lines and columns of outputs.
inline Interval Rows(const ConvolutionGeometry& p, int64_t r) {
  return OnImage(p.out_h(), p.h, p.stride_h, p.pad_top, r, p.dilation_h);
}
inline Interval Columns(const ConvolutionGeometry& p, int64_t s) {
  return OnImage(p.out_w(), p.w, p.stride_w, p.pad_left, s, p.dilation_w);
}

}  // namespace belfry::ops
