// The values of outputs that depend on constants only.
#pragma once

#include "tests/main/testing.h"
#include "tests/ops/harness/evaluate.h"

namespace belfry::ops {

inline absl::StatusOr<Tensor> Value(Output output) {
  ASSIGN_OR_RETURN(const std::vector<Tensor> values, harness::Evaluate({output}, {}));
  return values[0];
}
inline std::vector<double> Values(Output output) { return ValueOf(Value(output)).ToDoubles(); }

}  // namespace belfry::ops
