// The choice among our own algorithms for a convolution on CPUs. Internal.
#pragma once

#include <optional>

#include "absl/status/statusor.h"
#include "framework/graph/kernel.h"
#include "ops/common/epilogue.h"
#include "ops/onednn/convolution.h"

namespace belfry::ops {

// The kernel of the first algorithm of ours that serves the node and is expected to be faster than oneDNN's kernel:
// Winograd's, a matrix product (filters of 1 x 1), direct or depthwise. Nothing where oneDNN's is as fast, and for
// empty tensors. OwnForward serves Conv2D and, with its epilogue, FusedConv2D; OwnBackpropFilter Conv2DBackpropFilter
// and Conv2DBackpropFilterBias. Errors: those of MatMul's kernels.
absl::StatusOr<std::optional<Kernel>> OwnForward(const KernelSpec& spec, const onednn::Conv2DShape& shape,
                                                 const Epilogue& epilogue = {});
absl::StatusOr<std::optional<Kernel>> OwnBackpropInput(const KernelSpec& spec, const onednn::Conv2DShape& shape);
absl::StatusOr<std::optional<Kernel>> OwnBackpropFilter(const KernelSpec& spec, const onednn::Conv2DShape& shape);

// True for activations that all these kernels compute; the others leave to oneDNN what has another one, but for
// products.
bool IsReluAtMost(const Epilogue& epilogue);

}  // namespace belfry::ops
