// Convolutions with a filter of 1 x 1 as products of matrices. Internal.
#pragma once

#include "ops/convolution/engines/engine_impl.h"

namespace belfry::ops {

// Float32, with any epilogue, unless oneDNN's kernel is expected to be as fast. Gradients of such filters are direct
// convolutions. Errors: those of MatMul's kernels.
extern const ConvolutionEngine kProductForward, kProductBackwardData;

}  // namespace belfry::ops
