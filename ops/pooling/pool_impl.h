// What the pooling kernels of all devices share. Internal.
#pragma once

#include "absl/status/statusor.h"
#include "ops/common/window.h"

namespace belfry::ops {

// Where the window of a pooling op goes over x [N, H, W, C], by the attributes "ksize" [1, h, w, 1] and those of
// WindowAttrDefs. Padding is smaller than the window, so each one holds an element of x.
absl::StatusOr<Window> PoolWindow(const Attrs& attrs, const Shape& x);

}  // namespace belfry::ops
