// Kernels of convolutions with a filter of 1 x 1 as products of matrices. Internal.
#pragma once

#include <optional>

#include "absl/status/statusor.h"
#include "framework/graph/kernel.h"
#include "ops/onednn/convolution.h"

namespace belfry::ops {

// True for convolutions without empty tensors that these kernels serve: those that are products, unless oneDNN's kernel
// is expected to be as fast. Gradients of filters are direct convolutions (direct_impl.h).
bool ForwardIsProduct(const onednn::Conv2DShape& shape);
bool BackpropInputIsProduct(const onednn::Conv2DShape& shape);

// PointwiseForward serves Conv2D and FusedConv2D, PointwiseBackpropInput Conv2DBackpropInput, in float32. Both return
// nothing for other convolutions. Errors: those of MatMul's kernels.
absl::StatusOr<std::optional<Kernel>> PointwiseForward(const KernelSpec& spec, const onednn::Conv2DShape& shape);
absl::StatusOr<std::optional<Kernel>> PointwiseBackpropInput(const KernelSpec& spec, const onednn::Conv2DShape& shape);

}  // namespace belfry::ops
