// Kernels of 16-bit floats that run the float32 ones: of float16, because neither oneDNN nor Winograd's kernels compute
// in it; of bfloat16, where the processor has no instructions for it, or slow ones. Internal.
#pragma once

#include <functional>

#include "framework/graph/op_def.h"

namespace belfry::ops {

// Returns `op`, which has a float32 CPU kernel, with a float16 one, which runs that on copies of its inputs in the
// workspace and rounds the results. On processors without fast instructions for bfloat16 its kernel does the same,
// unless `own` says that the given one is as fast for this node.
OpDef WithHalfPrecision(OpDef op, std::function<bool(const KernelSpec&)> own = nullptr);

}  // namespace belfry::ops
