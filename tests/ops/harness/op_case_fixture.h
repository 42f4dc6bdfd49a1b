// The fixture of the tests of an OpCase.
#pragma once

#include <string>
#include <vector>

#include "tests/main/testing.h"
#include "tests/ops/harness/evaluate.h"
#include "tests/ops/harness/instance.h"

namespace belfry::harness {

void PrintTo(const OpCase& op_case, std::ostream* out);

// Fails the test unless every element is within `tolerance`, relative to max(1, largest finite expected element), or
// within `absolute`.
void ExpectClose(const Array& actual, const Array& expected, double tolerance, const std::string& what,
                 double absolute = 0);

// The difference that a sum of n numbers up to 1 of either sign may show in another order, however near to 0 it is.
// `rounding` is that of the dtype of the computation, float32 where it is narrower; 0 for integers. Sums in float32
// have about sqrt(n) roundings of the numbers, and those of the partial sums: one of k numbers is about sqrt(k / 3),
// and rounded with a deviation of 0.43 * 2^-24 of that, in all 1e-8 n, of which n / 16 of 1e-6 is six.
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
