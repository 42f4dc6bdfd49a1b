// One op, at once, on the CPU: what constant folding and tests of single ops use.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/base/tensor.h"
#include "framework/graph/op_def.h"

namespace belfry {

// Runs the CPU kernel of `op` on host tensors and returns its outputs in new tensors. `attrs` are complete
// (CompleteAttrs). For a ref input the tensor's own buffer is updated. Errors: no CPU kernel for the dtype, shapes that
// do not fit, whatever the kernel reports. Allocates; not for the path of a step.
absl::StatusOr<std::vector<Tensor>> RunOp(const OpDef& op, const Attrs& attrs, absl::Span<const Tensor> inputs,
                                          uint64_t run = 0);

}  // namespace belfry
