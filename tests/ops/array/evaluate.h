// Results of small graphs without a session.
#pragma once

#include "absl/status/statusor.h"
#include "framework/base/tensor.h"
#include "framework/graph/node.h"

namespace belfry {

// The result of a node whose inputs come from constants only, op by op on the CPU.
absl::StatusOr<Tensor> Evaluate(const Output& output);
// Its elements. The evaluation must succeed.
std::vector<double> Values(const Output& output);

}  // namespace belfry
