// float16 by the kernels for float32: neither oneDNN nor Winograd's kernels compute in it. Internal.
#pragma once

#include <vector>

#include "absl/strings/string_view.h"
#include "framework/graph/op_def.h"

namespace belfry::ops {

// `kernels` of op `op`, and one for float16 on CPUs that runs the one for float32 on copies of its inputs, in the
// workspace, and rounds what that computes.
std::vector<KernelDef> WithFloat16(absl::string_view op, std::vector<KernelDef> kernels);

}  // namespace belfry::ops
