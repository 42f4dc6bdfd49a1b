// Windows that slide over images, shared by convolution and pooling. Internal.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "framework/base/shape.h"
#include "framework/graph/op_def.h"
#include "ops/nn.h"

namespace belfry::ops {

// One spatial axis. If an extent is unknown, so is `out`.
struct WindowAxis {
  int64_t in = 0, window = 0, stride = 1, dilation = 1;
  int64_t out = 0, pad_low = 0, pad_high = 0;
};

// Height and width.
struct Window {
  WindowAxis h, w;
};

// The attributes "strides" [1, h, w, 1], "padding" ("SAME", "VALID" or "EXPLICIT") and "explicit_paddings" [top,
// bottom, left, right]: their definitions with defaults, and their values for the given options.
std::vector<AttrDef> WindowAttrDefs();
void SetWindowAttrs(const Padding& padding, int64_t stride_h, int64_t stride_w, Attrs& attrs);

// Positions of a window of the given extents over an image [N, H, W, C], from the attributes. Extents of `image`,
// window_h and window_w may be unknown. SAME gives ceil(in / stride) windows and pads evenly, with the odd element at
// the end, as in TensorFlow. InvalidArgument if an attribute is malformed or the window exceeds the padded image.
absl::StatusOr<Window> MakeWindow(const Attrs& attrs, const Shape& image, int64_t window_h, int64_t window_w,
                                  int64_t dilation_h = 1, int64_t dilation_w = 1);

}  // namespace belfry::ops
