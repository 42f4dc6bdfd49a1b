// Batch normalisation over all axes but the last (Ioffe and Szegedy, 2015).
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "framework/base/dtype.h"
#include "ops/onednn/primitive.h"

namespace belfry::ops::onednn {

// x and y [n, h, w, c]; [n, c] is h = w = 1. y = scale (x - mean) / sqrt(variance + epsilon) + shift. Scale, shift,
// mean, variance and their gradients are float32 [c], whatever the dtype of x. Variances are those of the batch itself
// (divided by n h w, not by n h w - 1).
struct BatchNormShape {
  int64_t n, h, w, c;
  float epsilon = 1e-3f;
  DType dtype = DType::kFloat32;  // float32 or bfloat16
};

// Inputs x, scale, shift; outputs y, mean, variance, both of this batch.
absl::StatusOr<Primitive> BatchNormTraining(const BatchNormShape& shape, bool allow_reference = false);

// With given statistics. Inputs x, scale, shift, mean, variance; output y.
absl::StatusOr<Primitive> BatchNormInference(const BatchNormShape& shape, bool allow_reference = false);

// Inputs x, dy, scale, mean, variance; outputs dx, dscale, dshift. With `fixed_statistics` it is the gradient of the
// inference form (mean and variance do not depend on x), else of the training form.
absl::StatusOr<Primitive> BatchNormBackward(const BatchNormShape& shape, bool fixed_statistics = false,
                                            bool allow_reference = false);

}  // namespace belfry::ops::onednn
