// The fixture of the tests of an OpCase.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/ops/harness/evaluate.h"
#include "tests/ops/harness/instance.h"

namespace belfry::harness {

void PrintTo(const OpCase& op_case, std::ostream* out);

// Fails the test unless every element is within `tolerance`, relative to max(1, largest finite expected element), or
// within `absolute`.
void ExpectClose(const Array& actual, const Array& expected, double tolerance, const std::string& what,
                 double absolute = 0);

// The difference that a sum of n numbers up to 1 may show in another order, however near to 0 it is: about sqrt(n)
// roundings of the dtype of the computation, which is float32 where `rounding` is that of a narrower type. 0 for
// integers, whose rounding is 0.
double ReorderedSum(int64_t n, double rounding);

class OpCaseTest : public testing::TestWithParam<OpCase> {
 protected:
  const OpCase& op_case() const { return GetParam(); }
  std::vector<Shape> own_shapes() const { return ShapeSets(op_case())[0]; }
  // Calls `body` for every combination of dtype and shapes.
  void ForAll(const std::function<void(const Instance&, DType, const std::vector<Shape>&)>& body) const;
  // The gradients of a fixed projection of the outputs with respect to the differentiable inputs; zeros if there are
  // none. `trace` as in Evaluate.
  absl::StatusOr<std::vector<Tensor>> Gradient(const Instance& instance, std::vector<NodeRun>* trace = nullptr) const;
};

}  // namespace belfry::harness
