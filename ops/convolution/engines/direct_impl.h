// Direct convolution (direct_kernel_impl.h) as an engine. Internal.
#pragma once

#include "ops/convolution/engines/engine_impl.h"

namespace belfry::ops {

// Float32, in one group, where products are not as fast in oneDNN's kernels.
extern const ConvolutionEngine kDirectForward, kDirectBackwardWeights;
// Those with so few outputs that most of a tile of Winograd's algorithm is outside of the image.
extern const ConvolutionEngine kDirectForwardOfFewOutputs, kDirectBackwardWeightsOfFewOutputs;

}  // namespace belfry::ops
