// Kernels of the convolution ops by Winograd's algorithm. Internal.
#pragma once

#include <functional>
#include <optional>

#include "framework/graph/kernel.h"
#include "ops/onednn/convolution.h"

namespace belfry::ops {

// WinogradForward serves Conv2D, and FusedConv2D, whose third input is the bias. WinogradBackpropInput serves
// Conv2DBackpropInput, and Conv2DBackpropInputReluGrad and Conv2DBackpropInputAddReluGrad, whose inputs after the third
// are the output of the ReLU and an addend. WinogradBackpropFilter serves Conv2DBackpropFilter, and
// Conv2DBackpropFilterBias, whose second output is the gradient of the bias. Each returns nothing if the device's
// MathMode excludes the algorithm, or another is expected to be as fast.
std::optional<Kernel> WinogradForward(const KernelSpec& spec, const onednn::Conv2DShape& shape, bool relu = false);
std::optional<Kernel> WinogradBackpropInput(const KernelSpec& spec, const onednn::Conv2DShape& shape);
std::optional<Kernel> WinogradBackpropFilter(const KernelSpec& spec, const onednn::Conv2DShape& shape);

// True for nodes that they have a kernel for, which converts bfloat16 as it transforms tiles (WithSixteenBits).
std::function<bool(const KernelSpec&)> ForwardByWinograd();
std::function<bool(const KernelSpec&)> BackpropInputByWinograd();
std::function<bool(const KernelSpec&)> BackpropFilterByWinograd();

}  // namespace belfry::ops
