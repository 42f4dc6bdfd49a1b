// Convolution of float32 and bfloat16 images by Winograd's minimal filtering, in tiles of 4 x 4 outputs: a 3 x 3 filter
// takes 4 times fewer multiplications, a 5 x 5 one 6.25 times fewer. Faster than oneDNN where there are enough
// channels, or few of them and a 5 x 5 filter.
//
// Rounding errors are about 4 times those of plain sums, some 2e-6 of the root mean square of the result.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/onednn/convolution.h"

namespace belfry::ops::winograd {

// Which of the three convolutions of a layer.
enum class Pass { kForward, kBackwardData, kBackwardWeights };

// Whether this computes `pass` of the convolution: float32 or bfloat16, stride and dilation 1, one group, a 3 x 3 or 5
// x 5 filter, a whole number of vectors of the channels that are written, and a processor with AVX2 or AVX-512 that
// this is compiled for.
bool Computes(const onednn::Conv2DShape& shape, Pass pass);
// Whether it does, and is expected to be faster than oneDNN: by the number of operations, so always the same.
bool IsBest(const onednn::Conv2DShape& shape, Pass pass);

// One pass of one convolution, planned for ParallelThreads() of the thread that makes it; to be run with as many.
// Buffers are NHWC and HWIO, of float or BFloat16, and do not overlap but where it says so; the workspace is aligned to
// 64 bytes. All is computed in float32. Results are the same bits at every run with the same number of threads. Any
// number of threads may run one object, each with its own workspace. An infinity or a NaN reaches all outputs of the
// tiles that see it. REQUIRES: Computes(shape, pass), and the shape's dtype is T.
template <class T>
class Convolution {
 public:
  Convolution(const onednn::Conv2DShape& shape, Pass pass);

  size_t workspace_bytes() const { return static_cast<size_t>(workspace_floats_) * sizeof(float); }

  // y = x * weights [+ bias], then negative ones are 0 if `relu`. `bias` may be null.
  void Forward(const T* x, const T* weights, const T* bias, bool relu, T* y, void* workspace) const;
  // dx of y, then + `addend`, then 0 where `mask` is not above 0. Both are like dx, may be null, and may be dx.
  void BackwardData(const T* dy, const T* weights, const T* addend, const T* mask, T* dx, void* workspace) const;
  // `dbias` may be null.
  void BackwardWeights(const T* x, const T* dy, T* dweights, T* dbias, void* workspace) const;

 private:
  onednn::Conv2DShape shape_;
  int threads_;
  int64_t block_;       // tiles that a thread has in the transformed domain at a time
  int64_t weights_at_;  // in the workspace, in floats: the filter as the passes compute with it, or its gradient
  int64_t workspace_floats_;
};

}  // namespace belfry::ops::winograd
