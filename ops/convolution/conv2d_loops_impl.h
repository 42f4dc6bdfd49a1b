// Convolution by plain loops, for the dtypes and shapes that oneDNN leaves to us. Internal.
#pragma once

#include "ops/onednn/convolution.h"

namespace belfry::ops {

// For float, double and BFloat16, each summed in Compute<T>. Extents may be 0. Every element is summed by one
// thread in a fixed order, so bits do not depend on their number.
template <class T>
void Conv2DForwardLoops(const onednn::Conv2DShape& p, const T* x, const T* filter, T* y);
template <class T>
void Conv2DBackpropInputLoops(const onednn::Conv2DShape& p, const T* filter, const T* dy, T* dx);
template <class T>
void Conv2DBackpropFilterLoops(const onednn::Conv2DShape& p, const T* x, const T* dy, T* dfilter);

}  // namespace belfry::ops
