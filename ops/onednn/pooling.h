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
  kAverageIncludePadding,  // divides by r s
  kAverageExcludePadding,  // divides by the number of elements inside the image, like TensorFlow
};

// x [n, h, w, c], y [n, out_h(), out_w(), c]. All sizes are at least 1; padding is smaller than the window.
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

// Input x; outputs y and, for a maximum in training, saved_bytes() with the winners for the backward pass. Ties go to
// the first element in row-major order.
absl::StatusOr<Primitive> Pool2DForward(const Pool2DShape& shape, bool training);

// Inputs dy and, for a maximum, the winners; output dx. saved_bytes() equals that of the forward pass.
absl::StatusOr<Primitive> Pool2DBackward(const Pool2DShape& shape);

}  // namespace belfry::ops::onednn
