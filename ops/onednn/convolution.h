// Two-dimensional convolution in NHWC, with weights in HWIO.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "framework/base/dtype.h"
#include "ops/onednn/primitive.h"

namespace belfry::ops::onednn {

// x [n, h, w, c], weights [r, s, c / groups, k], y [n, out_h(), out_w(), k]. All sizes at least 1; c and k are
// multiples of groups; the output channels of group g are [g k / groups, (g + 1) k / groups), so depthwise weights [r,
// s, c, m] are the weights [r, s, 1, c m] of groups = c.
struct Conv2DShape {
  int64_t n, h, w, c;
  int64_t k;
  int64_t r, s;
  int64_t stride_h = 1, stride_w = 1;
  int64_t pad_top = 0, pad_bottom = 0, pad_left = 0, pad_right = 0;
  int64_t dilation_h = 1, dilation_w = 1;  // 1: the taps of the window are neighbours
  int64_t groups = 1;
  DType dtype = DType::kFloat32;  // of x, y and weights: float32 or bfloat16 (sums are in float32)

  int64_t out_h() const { return (h + pad_top + pad_bottom - (r - 1) * dilation_h - 1) / stride_h + 1; }
  int64_t out_w() const { return (w + pad_left + pad_right - (s - 1) * dilation_w - 1) / stride_w + 1; }
  // "convolution float32 [128,24,24,3] * [5,5,3,64] stride 1x1 padding 2,2,2,2".
  std::string DebugString() const;
};

struct Conv2DForwardOptions {
  bool bias = false;  // [k], of the shape's dtype
  PostOps post_ops;
  bool allow_reference = false;
};

// Inputs x, weights[, bias]; output y.
absl::StatusOr<Primitive> Conv2DForward(const Conv2DShape& shape, const Conv2DForwardOptions& options = {});

// Inputs dy, weights; output dx.
absl::StatusOr<Primitive> Conv2DBackwardData(const Conv2DShape& shape, bool allow_reference = false);

struct Conv2DBackwardWeightsOptions {
  bool bias = false;  // the gradient of the bias in the same pass
  // Of the gradients: float32 (also for a bfloat16 convolution, where a float32 master copy is updated), or the
  // shape's.
  DType gradient_dtype = DType::kFloat32;
  bool allow_reference = false;
};

// Inputs x, dy; outputs dweights[, dbias].
absl::StatusOr<Primitive> Conv2DBackwardWeights(const Conv2DShape& shape,
                                                const Conv2DBackwardWeightsOptions& options = {});

}  // namespace belfry::ops::onednn
