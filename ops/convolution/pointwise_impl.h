// Kernels of convolutions with a filter of 1 x 1 as products of matrices. Internal.
#pragma once

#include <optional>

#include "absl/status/statusor.h"
#include "framework/graph/kernel.h"
#include "ops/onednn/convolution.h"

namespace belfry::ops {

// PointwiseForward serves Conv2D and FusedConv2D, the others Conv2DBackpropInput and Conv2DBackpropFilter, in float32.
// Each returns nothing if the convolution is no product, or oneDNN's kernel is expected to be as fast.
absl::StatusOr<std::optional<Kernel>> PointwiseForward(const KernelSpec& spec, const onednn::Conv2DShape& shape);
absl::StatusOr<std::optional<Kernel>> PointwiseBackpropInput(const KernelSpec& spec, const onednn::Conv2DShape& shape);
absl::StatusOr<std::optional<Kernel>> PointwiseBackpropFilter(const KernelSpec& spec, const onednn::Conv2DShape& shape);

}  // namespace belfry::ops
