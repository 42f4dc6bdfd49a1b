// Convolution by plain loops as an engine, for the dtypes and shapes that no other one serves. Internal.
#pragma once

#include "ops/convolution/engines/engine_impl.h"

namespace belfry::ops {

// For float, double and BFloat16, summed in Compute<T>. Extents may be 0. Every element is summed by one thread in a
// fixed order, so results do not depend on the number of threads.
template <class T>
void Conv2DForwardLoops(const ConvolutionGeometry& p, const T* x, const T* filter, T* y);
template <class T>
void Conv2DBackpropInputLoops(const ConvolutionGeometry& p, const T* filter, const T* dy, T* dx);
template <class T>
void Conv2DBackpropFilterLoops(const ConvolutionGeometry& p, const T* x, const T* dy, T* dfilter);

extern const ConvolutionEngine kLoopsForward, kLoopsBackwardData, kLoopsBackwardWeights;

}  // namespace belfry::ops
