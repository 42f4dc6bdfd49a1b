// What follows a convolution or a product of matrices in one op, on GPUs. Internal.
#pragma once

#include "framework/graph/kernel.h"

namespace belfry::ops {

// The values of the attribute "activation" of fused ops, with its "alpha"; leaky relu is relu with an alpha.
enum class GpuActivation { kNone, kRelu, kRelu6, kElu, kTanh, kSigmoid };
struct GpuEpilogue {
  GpuActivation activation = GpuActivation::kNone;
  double alpha = 0;

  static GpuEpilogue Of(const Attrs& attrs);
  // True for what libraries fuse.
  bool is_relu() const { return activation == GpuActivation::kRelu && alpha == 0; }
  bool is_none() const { return activation == GpuActivation::kNone; }
};

// `kernel` on inputs 0 and 1, then bias (input 2) and activation over its output.
Kernel WithGpuEpilogue(Kernel kernel, const KernelSpec& spec, const GpuEpilogue& epilogue);
// `kernel`, then the addend (input 4), if there is one, added to its output, and 0 where input 3 is not above 0. Not in
// place.
Kernel WithGpuAddAndMask(Kernel kernel, const KernelSpec& spec);

}  // namespace belfry::ops
