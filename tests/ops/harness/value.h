// The value of an output that depends on constants only.
#pragma once

#include "absl/status/statusor.h"
#include "framework/base/status.h"
#include "framework/base/tensor.h"
#include "framework/compiler/eager.h"
#include "tests/ops/harness/evaluate.h"

namespace belfry::ops {

inline absl::StatusOr<Tensor> Value(Output output) {
  ASSIGN_OR_RETURN(const std::vector<Tensor> values, harness::Evaluate({output}, {}));
  return values[0];
}

}  // namespace belfry::ops
