// Two-dimensional convolution of NHWC images with HWIO weights.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "framework/base/dtype.h"
#include "ops/onednn/primitive.h"

namespace belfry::ops::onednn {

// x [n, h, w, c], weights [r, s, c / groups, k], y [n, out_h(), out_w(), k]. All sizes are at least 1; c and k are
// multiples of groups. Group g produces output channels [g k / groups, (g + 1) k / groups), so depthwise weights [r, s,
// c, m] are the weights [r, s, 1, c m] with groups = c.
struct Conv2DShape {
  int64_t n, h, w, c;
  int64_t k;
  int64_t r, s;
  int64_t stride_h = 1, stride_w = 1;
  int64_t pad_top = 0, pad_bottom = 0, pad_left = 0, pad_right = 0;
  int64_t dilation_h = 1, dilation_w = 1;  // 1: neighbouring taps
  int64_t groups = 1;
  DType dtype = DType::kFloat32;  // of x, y and weights: float32, or bfloat16 with sums in float32

  int64_t out_h() const { return (h + pad_top + pad_bottom - (r - 1) * dilation_h - 1) / stride_h + 1; }
  int64_t out_w() const { return (w + pad_left + pad_right - (s - 1) * dilation_w - 1) / stride_w + 1; }
  // "convolution float32 [128,24,24,3] * [5,5,3,64] stride 1x1 padding 2,2,2,2".
  std::string DebugString() const;
};

struct Conv2DForwardOptions {
  bool bias = false;  // [k], of the shape's dtype
  Epilogue post_ops;
  bool allow_reference = false;
};

// Inputs x, weights[, bias]; output y.
absl::StatusOr<Primitive> Conv2DForward(const Conv2DShape& shape, const Conv2DForwardOptions& options = {});

// Inputs dy, weights; output dx.
absl::StatusOr<Primitive> Conv2DBackwardData(const Conv2DShape& shape, bool allow_reference = false);

struct Conv2DBackwardWeightsOptions {
  bool bias = false;  // also computes the gradient of the bias
  // Dtype of the gradients: the shape's, or float32, for example for a bfloat16 convolution that updates float32 master
  // weights.
  DType gradient_dtype = DType::kFloat32;
  bool allow_reference = false;
};

// Inputs x, dy; outputs dweights[, dbias].
absl::StatusOr<Primitive> Conv2DBackwardWeights(const Conv2DShape& shape,
                                                const Conv2DBackwardWeightsOptions& options = {});

}  // namespace belfry::ops::onednn
