// Winograd's algorithm (ops/winograd) as an engine. Internal.
#pragma once

#include "ops/convolution/engines/engine_impl.h"

namespace belfry::ops {

// Not if the device's MathMode excludes the algorithm.
extern const ConvolutionEngine kWinogradForward, kWinogradBackwardData, kWinogradBackwardWeights;

}  // namespace belfry::ops
