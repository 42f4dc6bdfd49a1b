// Local response normalisation across channels (Krizhevsky et al., 2012), in NHWC.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "framework/base/dtype.h"
#include "ops/onednn/primitive.h"

namespace belfry::ops::onednn {

// TensorFlow's parameters: y[.., i] = x[.., i] / (bias + alpha sum_j x[.., j]^2)^beta, over the channels j within
// depth_radius of i. x and y are [n, h, w, c]. The library is fast only for beta = 0.75. Unimplemented where it is
// known to be wrong or to crash: depth_radius 0, and the gradient for depth_radius above 2 with more than 16 channels
// that are not a multiple of 16.
struct LrnShape {
  int64_t n, h, w, c;
  int64_t depth_radius = 5;
  float bias = 1, alpha = 1, beta = 0.5f;
  DType dtype = DType::kFloat32;  // float32, or bfloat16 computed in float32
};

// Input x; outputs y and, in training, saved_bytes() for the backward pass.
absl::StatusOr<Primitive> LrnForward(const LrnShape& shape, bool training, bool allow_reference = false);

// Inputs x, dy and the data that the forward pass saved; output dx. saved_bytes() equals that of the forward pass.
absl::StatusOr<Primitive> LrnBackward(const LrnShape& shape, bool allow_reference = false);

}  // namespace belfry::ops::onednn
