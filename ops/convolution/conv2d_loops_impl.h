// Convolution by plain loops, for the dtypes and shapes that oneDNN does not support. Internal.
#pragma once

#include "ops/onednn/convolution.h"

namespace belfry::ops {

// For float, double and BFloat16, summed in Compute<T>. Extents may be 0. Every element is summed by one thread in a
// fixed order, so results do not depend on the number of threads.
template <class T>
void Conv2DForwardLoops(const onednn::Conv2DShape& p, const T* x, const T* filter, T* y);
template <class T>
void Conv2DBackpropInputLoops(const onednn::Conv2DShape& p, const T* filter, const T* dy, T* dx);
template <class T>
void Conv2DBackpropFilterLoops(const onednn::Conv2DShape& p, const T* x, const T* dy, T* dfilter);

}  // namespace belfry::ops
