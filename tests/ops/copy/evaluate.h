// Evaluation of small graphs of constants.
#pragma once

#include <vector>

#include "tests/ops/harness/evaluate.h"

namespace belfry {

inline absl::StatusOr<Tensor> Evaluate(const Output& output) {
  const absl::StatusOr<std::vector<Tensor>> values = harness::Evaluate({output}, {});
  if (!values.ok()) return values.status();
  return values->front();
}

// The elements of an output that can be evaluated.
inline std::vector<double> Values(const Output& output) { return Evaluate(output).value().ToDoubles(); }

}  // namespace belfry
