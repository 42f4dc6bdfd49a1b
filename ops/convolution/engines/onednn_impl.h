// oneDNN's convolutions as an engine. Internal.
#pragma once

#include "ops/convolution/engines/engine_impl.h"

namespace belfry::ops {

// Float32 and bfloat16, where the library has a kernel, which shows when it is made.
extern const ConvolutionEngine kOneDnnForward, kOneDnnBackwardData, kOneDnnBackwardWeights;

}  // namespace belfry::ops
