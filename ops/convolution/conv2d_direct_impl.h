// Kernels of the convolution ops by direct convolution (direct_impl.h). Internal.
#pragma once

#include <optional>

#include "framework/graph/kernel.h"
#include "ops/onednn/convolution.h"
#include "ops/winograd/winograd_impl.h"

namespace belfry::ops {

// True for passes of convolutions without empty tensors of which these kernels are expected to be the fastest.
bool IsDirect(const onednn::Conv2DShape& shape, winograd::Pass pass);

// Kernels of Conv2D, of FusedConv2D, whose third input is the bias, and of Conv2DBackpropFilter. Nothing if oneDNN's
// kernel is expected to be as fast.
std::optional<Kernel> MakeDirectForward(const KernelSpec& spec, const onednn::Conv2DShape& shape, bool relu = false);
std::optional<Kernel> MakeDirectBackpropFilter(const KernelSpec& spec, const onednn::Conv2DShape& shape);

}  // namespace belfry::ops
