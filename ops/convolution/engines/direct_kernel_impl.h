// Direct convolution of float32 images on CPUs: a product of matrices for each tap of the filter. Internal.
//
//   y [n, oh, ow, :] = sum over (r, s) of x [n, ih, iw, :] filter [r, s, :, :]
//   dfilter [r, s, :, :] = sum over (n, oh, ow) of the outer products of x [n, ih, iw, :] and dy [n, oh, ow, :]
//
// with ih = oh stride_h - pad_top + r dilation_h, and iw likewise. Outputs are the rows of the matrices. Rows for which
// ih is on the padding are left out, and in the gradient all that are.
#pragma once

#include <cstdint>

#include "ops/common/convolution_geometry.h"
#include "ops/simd/outer_products_impl.h"

namespace belfry::ops {

// The forward pass. Results do not depend on the number of threads. Thread-safe. REQUIRES: one group, float32, and a
// number of output channels that is a multiple of the vector length.
class DirectForward {
 public:
  // Runs on up to ParallelThreads() threads, those of the thread that makes it.
  explicit DirectForward(const ConvolutionGeometry& shape);

  // Sizes in floats. The memory is aligned to 64 bytes.
  int64_t filter_floats() const;
  int64_t workspace_floats() const { return threads_ * block_; }
  // Copies the filter, which may be that of many calls, into panels.
  void Pack(const float* filter, float* packed) const;
  // y = x * filter [+ bias], then max(y, 0) if `relu`. `bias` may be null.
  void Run(const float* x, const float* packed, const float* bias, bool relu, float* y, float* workspace) const;

 private:
  void RunLines(int64_t begin, int64_t end, const float* x, const float* packed, float* y, float* copies) const;
  void AddTap(int64_t begin, int64_t end, int64_t r, int64_t s, const float* x, const float* packed, float* y,
              float* copies) const;

  ConvolutionGeometry shape_;
  int64_t lines_, of_group_, groups_;  // lines of outputs, those that are computed together, and groups of these
  int64_t threads_, block_;            // floats of copied rows of x for each thread
};

// The gradient of the filter. Results do not depend on the number of threads. Thread-safe. REQUIRES: one group and
// float32.
class DirectFilterGradient {
 public:
  explicit DirectFilterGradient(const ConvolutionGeometry& shape);

  int64_t workspace_floats() const { return bands_.count() * bands_.elements(); }
  void Run(const float* x, const float* dy, float* dfilter, float* workspace) const;

 private:
  using Band = simd::OuterProductBands<float>::Band;
  void RunBand(const Band& band, const float* x, const float* dy, float* dfilter, float* workspace) const;

  ConvolutionGeometry shape_;
  simd::OuterProductBands<float> bands_;
};

}  // namespace belfry::ops
