// Depthwise convolution (depthwise_kernel_impl.h) as an engine. Internal.
#pragma once

#include "ops/convolution/engines/engine_impl.h"

namespace belfry::ops {

// Float32, where oneDNN's kernel is not as fast.
extern const ConvolutionEngine kDepthwiseForward, kDepthwiseBackwardData, kDepthwiseBackwardWeights;

}  // namespace belfry::ops
