// Two-dimensional pooling in NHWC.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "framework/base/dtype.h"
#include "ops/onednn/primitive.h"

namespace belfry::ops::onednn {

enum class PoolKind {
  kMax,
  kAverageIncludePadding,  // divides by r s everywhere
  kAverageExcludePadding,  // divides by the elements of the image in the window: TensorFlow's
};

// x [n, h, w, c], y [n, out_h(), out_w(), c]. All sizes at least 1; padding smaller than the window.
struct Pool2DShape {
  PoolKind kind;
  int64_t n, h, w, c;
  int64_t r, s;
  int64_t stride_h = 1, stride_w = 1;
  int64_t pad_top = 0, pad_bottom = 0, pad_left = 0, pad_right = 0;
  DType dtype = DType::kFloat32;  // float32 or bfloat16

  int64_t out_h() const { return (h + pad_top + pad_bottom - r) / stride_h + 1; }
  int64_t out_w() const { return (w + pad_left + pad_right - s) / stride_w + 1; }
  std::string DebugString() const;
};

// Inputs x; outputs y, and for a maximum in training the winners, saved_bytes() for the backward pass. Of equal
// elements the first in row-major order wins.
absl::StatusOr<Primitive> Pool2DForward(const Pool2DShape& shape, bool training, bool allow_reference = false);

// Inputs dy[, the winners]; output dx. saved_bytes() is that of the forward pass.
absl::StatusOr<Primitive> Pool2DBackward(const Pool2DShape& shape, bool allow_reference = false);

}  // namespace belfry::ops::onednn
