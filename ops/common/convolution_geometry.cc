#include "ops/common/convolution_geometry.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace belfry::ops {

std::string ConvolutionGeometry::DebugString() const {
  std::string text = absl::StrFormat("convolution %s [%d,%d,%d,%d] * [%d,%d,%d,%d] stride %dx%d padding %d,%d,%d,%d",
                                     DTypeName(dtype), n, h, w, c, r, s, groups > 0 ? c / groups : c, k, stride_h,
                                     stride_w, pad_top, pad_bottom, pad_left, pad_right);
  if (dilation_h != 1 || dilation_w != 1) absl::StrAppendFormat(&text, " dilation %dx%d", dilation_h, dilation_w);
  if (groups != 1) absl::StrAppend(&text, " groups ", groups);
  return text;
}

}  // namespace belfry::ops
