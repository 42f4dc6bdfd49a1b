// float16 kernels that run the float32 ones, because neither oneDNN nor Winograd's kernels compute in float16.
// Internal.
#pragma once

#include <vector>

#include "absl/strings/string_view.h"
#include "framework/graph/op_def.h"

namespace belfry::ops {

// Returns `kernels` of op `op` and a float16 CPU kernel, which runs the float32 kernel on copies of its inputs in the
// workspace and rounds the results.
std::vector<KernelDef> WithFloat16(absl::string_view op, std::vector<KernelDef> kernels);

}  // namespace belfry::ops
