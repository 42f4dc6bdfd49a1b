// Geometry of pooling, for all devices. Internal.
#pragma once

#include "absl/status/statusor.h"
#include "ops/common/window.h"

namespace belfry::ops {

// The window of a pooling op over x [N, H, W, C], from the attribute "ksize" [1, h, w, 1] and WindowAttrDefs.
// Padding is smaller than the window, so every window contains an element of x.
absl::StatusOr<Window> PoolWindow(const Attrs& attrs, const Shape& x);

}  // namespace belfry::ops
