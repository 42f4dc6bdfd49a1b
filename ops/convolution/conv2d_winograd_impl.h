// Convolutions by Winograd's algorithm as kernels. Internal.
#pragma once

#include <optional>

#include "framework/graph/kernel.h"
#include "ops/onednn/convolution.h"

namespace belfry::ops {

// Of Conv2D or FusedConv2D, whose third input is the bias; of Conv2DBackpropInput, Conv2DBackpropInputReluGrad or
// Conv2DBackpropInputAddReluGrad, whose inputs after the third are the ReLU's output and an addend; of
// Conv2DBackpropFilter or Conv2DBackpropFilterBias, whose second output is the gradient of the bias. Nothing if the
// device's MathMode rules the algorithm out, or another is as fast.
std::optional<Kernel> WinogradForward(const KernelSpec& spec, const onednn::Conv2DShape& shape, bool relu = false);
std::optional<Kernel> WinogradBackpropInput(const KernelSpec& spec, const onednn::Conv2DShape& shape);
std::optional<Kernel> WinogradBackpropFilter(const KernelSpec& spec, const onednn::Conv2DShape& shape);

}  // namespace belfry::ops
