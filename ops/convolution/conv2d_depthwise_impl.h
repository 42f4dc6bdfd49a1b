// Kernels of the convolution ops by our own depthwise convolution (depthwise_impl.h). Internal.
#pragma once

#include <optional>

#include "framework/graph/kernel.h"
#include "ops/onednn/convolution.h"

namespace belfry::ops {

// Kernels of Conv2D, of FusedConv2D, whose third input is the bias, and of Conv2DBackpropInput and
// Conv2DBackpropFilter. Nothing for convolutions that are not depthwise, or of which oneDNN's kernel is expected to be
// as fast.
std::optional<Kernel> MakeDepthwiseForward(const KernelSpec& spec, const onednn::Conv2DShape& shape, bool relu = false);
std::optional<Kernel> MakeDepthwiseBackpropInput(const KernelSpec& spec, const onednn::Conv2DShape& shape);
std::optional<Kernel> MakeDepthwiseBackpropFilter(const KernelSpec& spec, const onednn::Conv2DShape& shape);

}  // namespace belfry::ops
