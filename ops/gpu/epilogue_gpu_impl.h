// Epilogues of convolutions and matrix products on GPUs, for ops that fuse them. Internal.
#pragma once

#include "framework/graph/kernel.h"

namespace belfry::ops {

// The "activation" attribute of fused ops, with its "alpha". Leaky ReLU is kRelu with an alpha.
enum class GpuActivation { kNone, kRelu, kRelu6, kElu, kTanh, kSigmoid, kGelu, kGeluTanh };
struct GpuEpilogue {
  GpuActivation activation = GpuActivation::kNone;
  double alpha = 0;

  static GpuEpilogue Of(const Attrs& attrs);
  // Epilogues that the libraries can fuse.
  bool is_relu() const { return activation == GpuActivation::kRelu && alpha == 0; }
  bool is_none() const { return activation == GpuActivation::kNone; }
};

// Runs `kernel` on inputs 0 and 1, then adds the bias (input 2) to its output and applies the activation.
Kernel WithGpuEpilogue(Kernel kernel, const KernelSpec& spec, const GpuEpilogue& epilogue);
// Runs `kernel`, then adds the addend (input 4), if there is one, to its output, and sets elements to 0 where input 3
// is not above 0. Not in place.
Kernel WithGpuAddAndMask(Kernel kernel, const KernelSpec& spec);

}  // namespace belfry::ops
