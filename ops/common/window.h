// Windows that slide over images: what convolution and pooling share. Internal.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "framework/base/shape.h"
#include "framework/graph/op_def.h"
#include "ops/nn.h"

namespace belfry::ops {

// One spatial axis. An extent may be unknown, and then so is `out`.
struct WindowAxis {
  int64_t in = 0, window = 0, stride = 1, dilation = 1;
  int64_t out = 0, pad_low = 0, pad_high = 0;
};

// Height and width.
struct Window {
  WindowAxis h, w;
};

// The attributes "strides" [1, h, w, 1], "padding" ("SAME", "VALID" or "EXPLICIT") and "explicit_paddings" [top,
// bottom, left, right], with their defaults; and what options say in this form.
std::vector<AttrDef> WindowAttrDefs();
void SetWindowAttrs(const Padding& padding, int64_t stride_h, int64_t stride_w, Attrs& attrs);

// Where a window of these extents goes over an image [N, H, W, C], by the attributes. Extents of `image`, window_h and
// window_w may be unknown. SAME has ceil(in / stride) windows and pads evenly, the odd one at the end, as TensorFlow
// does.
absl::StatusOr<Window> MakeWindow(const Attrs& attrs, const Shape& image, int64_t window_h, int64_t window_w,
                                  int64_t dilation_h = 1, int64_t dilation_w = 1);

}  // namespace belfry::ops
