// Two-dimensional convolution of NHWC images with HWIO weights, whose extents are at least 1: float32, or bfloat16 with
// sums in float32.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "framework/base/dtype.h"
#include "ops/common/convolution_geometry.h"
#include "ops/common/epilogue.h"
#include "ops/onednn/primitive.h"

namespace belfry::ops::onednn {

struct Conv2DForwardOptions {
  bool bias = false;  // [k], of the shape's dtype
  Epilogue post_ops;
};

// Inputs x, weights[, bias]; output y.
absl::StatusOr<Primitive> Conv2DForward(const ConvolutionGeometry& shape, const Conv2DForwardOptions& options = {});

// Inputs dy, weights; output dx.
absl::StatusOr<Primitive> Conv2DBackwardData(const ConvolutionGeometry& shape);

struct Conv2DBackwardWeightsOptions {
  bool bias = false;  // also computes the gradient of the bias
  // Dtype of the gradients: the shape's, or float32, for example for a bfloat16 convolution that updates float32 master
  // weights.
  DType gradient_dtype = DType::kFloat32;
};

// Inputs x, dy; outputs dweights[, dbias].
absl::StatusOr<Primitive> Conv2DBackwardWeights(const ConvolutionGeometry& shape,
                                                const Conv2DBackwardWeightsOptions& options = {});

}  // namespace belfry::ops::onednn
