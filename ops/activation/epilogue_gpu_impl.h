// Epilogues of convolutions and matrix products on GPUs, for ops that fuse them. Internal.
#pragma once

#include "framework/graph/kernel.h"
#include "ops/common/epilogue.h"

namespace belfry::ops {

// Epilogues that the libraries can fuse.
inline bool FusedByGpuLibraries(const Epilogue& epilogue) {
  return epilogue.activation == Activation::kNone || epilogue.activation == Activation::kRelu;
}

// Runs `kernel` on inputs 0 and 1, then adds the bias (input 2) to its output and applies the activation.
Kernel WithGpuEpilogue(Kernel kernel, const KernelSpec& spec, const Epilogue& epilogue);
// Runs `kernel`, then adds the addend (input 4), if there is one, to its output, and sets elements to 0 where input 3
// is not above 0. Not in place.
Kernel WithGpuAddAndMask(Kernel kernel, const KernelSpec& spec);

}  // namespace belfry::ops
