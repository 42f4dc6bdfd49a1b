// Kernels of 16-bit floats that run the float32 ones: of float16, because neither oneDNN nor Winograd's kernels compute
// in it; of bfloat16, where the processor has no instructions for it. Internal.
#pragma once

#include <functional>
#include <vector>

#include "absl/strings/string_view.h"
#include "framework/graph/op_def.h"

namespace belfry::ops {

// Returns `kernels` of op `op` and a float16 CPU kernel, which runs the float32 kernel on copies of its inputs in the
// workspace and rounds the results. On processors without instructions for bfloat16 its kernel does the same, unless
// `own` says that the given one converts elements as it reads them.
std::vector<KernelDef> WithSixteenBits(absl::string_view op, std::vector<KernelDef> kernels,
                                       std::function<bool(const KernelSpec&)> own = nullptr);

}  // namespace belfry::ops
