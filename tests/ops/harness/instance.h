// An OpCase made concrete: a graph for one dtype and one set of shapes, with values to feed.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/base/tensor.h"
#include "framework/graph/gradient_checker.h"
#include "framework/graph/graph.h"
#include "tests/ops/harness/op_case.h"

namespace belfry::harness {

struct Instance {
  std::unique_ptr<Graph> graph;
  Ins ins;
  Outs outs;
  FeedList feeds;  // one per input, in order
  Arrays arrays;   // the same values, rounded to the inputs' dtypes

  Scope scope() const { return Scope(*graph); }
  // Inputs whose gradient is checked.
  std::vector<Output> Differentiable(const OpCase& op_case) const;
};

// The shapes of the case's own inputs, then those of more_shapes.
std::vector<std::vector<Shape>> ShapeSets(const OpCase& op_case);

// `unknown_axis`: that axis of every placeholder is unknown in the graph, -1 for none. The values depend on the case's
// name and on the shapes only (and on BELFRY_TEST_SEED if that is set in the environment); in a narrower dtype they are
// the same but for rounding.
absl::StatusOr<Instance> MakeInstance(const OpCase& op_case, DType dtype, const std::vector<Shape>& shapes,
                                      int unknown_axis = -1);

// `values` rounded to `dtype`.
Tensor MakeTensor(DType dtype, const Array& values);
Array ToArray(const Tensor& tensor);
// A few units of the rounding of `dtype`; 0 for integers and bool.
double Rounding(DType dtype);

}  // namespace belfry::harness
