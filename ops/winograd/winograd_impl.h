// Convolution of float32 and bfloat16 images by Winograd's minimal filtering, in tiles of 4 x 4 outputs, or of up to
// 8 x 8 for bfloat16. Tiles of 4 take 4 times fewer multiplications for a 3 x 3 filter and 6.25 times fewer for a 5 x 5
// one, those of 7 and 8 5.4 and 5.8 times. Faster than oneDNN with many channels, or with few channels and a 5 x 5
// filter.
//
// Rounding errors of float32 are 4 to 5 times those of plain sums, and in the gradients of filters 7 to 15 times.
// Larger tiles have some 10 times larger errors, a small part of the rounding of bfloat16.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ops/common/convolution_geometry.h"

namespace belfry::ops::winograd {

using Pass = ConvolutionPass;

// True if this code supports `pass` of the convolution: float32 or bfloat16, stride and dilation 1, one group, a 3 x 3
// or 5 x 5 filter, a number of written channels that is a multiple of the vector length or, backward for data, above
// it, and a build for AVX2 or AVX-512.
bool Computes(const ConvolutionGeometry& shape, Pass pass);
// The sizes of tiles that compute it, in outputs along each axis. REQUIRES: Computes(shape, pass).
std::vector<int> TilesOf(const ConvolutionGeometry& shape, Pass pass);
// The one of them that is expected to be the fastest.
int BestTile(const ConvolutionGeometry& shape, Pass pass);
// True if the pass is supported and expected to be faster than oneDNN. The estimate counts operations, so it is
// reproducible.
bool IsBest(const ConvolutionGeometry& shape, Pass pass);

// One pass of one convolution, planned for the ParallelThreads() of the constructing thread; runs with that many or
// more. Buffers are NHWC and HWIO, float or BFloat16, and must not overlap except where stated; the workspace is
// aligned to 64 bytes. All arithmetic is float32. Results are bit-identical between runs with the same number of
// threads. Thread-safe: calls may run concurrently, each with its own workspace. An infinity or NaN reaches every
// output of the tiles that read it. REQUIRES: Computes(shape, pass), and T is the shape's dtype.
template <class T>
class Convolution {
 public:
  Convolution(const ConvolutionGeometry& shape, Pass pass) : Convolution(shape, pass, BestTile(shape, pass)) {}
  // `tile`: one of TilesOf(shape, pass).
  Convolution(const ConvolutionGeometry& shape, Pass pass, int tile);

  size_t workspace_bytes() const { return static_cast<size_t>(weights_at_ + weight_floats_) * sizeof(float); }

  // y = x * weights [+ bias], then max(y, 0) if `relu`. `bias` may be null.
  void Forward(const T* x, const T* weights, const T* bias, bool relu, T* y, void* workspace) const;
  // The same in two parts, for weights that are those of many calls. `transformed` has filter_floats() floats and is
  // aligned to 64 bytes; `floats` has weight_floats(), 0 if the weights are float; the workspace of the second part has
  // transformed_workspace_bytes().
  void TransformWeights(const T* weights, float* transformed, float* floats) const;
  void ForwardTransformed(const T* x, const float* transformed, const T* bias, bool relu, T* y, void* workspace) const;
  int64_t filter_floats() const { return filter_floats_; }
  int64_t weight_floats() const { return weight_floats_; }
  size_t transformed_workspace_bytes() const {
    return static_cast<size_t>(weights_at_ - filter_floats_) * sizeof(float);
  }
  // dx from dy, then + `addend`, then 0 where `mask` is not above 0. Both have the shape of dx, may be null, and may
  // alias dx.
  void BackwardData(const T* dy, const T* weights, const T* addend, const T* mask, T* dx, void* workspace) const;
  // dweights, and dbias if it is not null.
  void BackwardWeights(const T* x, const T* dy, T* dweights, T* dbias, void* workspace) const;

 private:
  ConvolutionGeometry shape_;
  int tile_;  // outputs of a tile along each axis
  int threads_;
  int64_t block_;              // tiles that one thread holds in the transformed domain at a time
  int64_t filter_floats_ = 0;  // of the transformed filter, with which the workspace begins
  int64_t weights_at_;         // offset in the workspace, in floats, of the float filter or its gradient
  int64_t weight_floats_;      // of that
};

}  // namespace belfry::ops::winograd
