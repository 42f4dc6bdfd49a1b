// Depthwise convolution of float32 images on CPUs, each channel with a filter of its own, in vectors of channels.
// Internal.
//
//   y [n, oh, ow, :] = sum over (r, s) of x [n, ih, iw, :] filter [r, s, 0, :]
//   dfilter [r, s, 0, :] = sum over (n, oh, ow) of x [n, ih, iw, :] dy [n, oh, ow, :]
//
// with ih = oh stride_h - pad_top + r dilation_h, and iw likewise. Results do not depend on the number of threads.
// Thread-safe. REQUIRES: c == k == groups, float32, and channels that are a multiple of the vector length.
#pragma once

#include <cstdint>

#include "ops/common/convolution_geometry.h"

namespace belfry::ops::depthwise {

// True for filters of 3 x 3 without strides and dilation, and with at most two lines or columns of padding on a side.
// Their kernels load each input once for the three outputs of a line that read it.
bool Slides(const ConvolutionGeometry& p);

// y = x * filter [+ bias], then max(y, 0) if `relu`. `bias` may be null.
void Forward(const ConvolutionGeometry& p, const float* x, const float* filter, const float* bias, bool relu, float* y);

// REQUIRES: Slides(p).
void BackpropInput(const ConvolutionGeometry& p, const float* filter, const float* dy, float* dx);

// `workspace` has FilterWorkspace(p) floats.
int64_t FilterWorkspace(const ConvolutionGeometry& p);
void BackpropFilter(const ConvolutionGeometry& p, const float* x, const float* dy, float* dfilter, float* workspace);

}  // namespace belfry::ops::depthwise
