// A concrete instance of an OpCase: a graph for one dtype and one set of shapes, with values to feed.
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
  // The inputs whose gradients are checked.
  std::vector<Output> Differentiable(const OpCase& op_case) const;
};

// The case's own input shapes, followed by those of more_shapes.
std::vector<std::vector<Shape>> ShapeSets(const OpCase& op_case);

// `unknown_axis` is the axis of every placeholder that is unknown in the graph, or -1. Values depend only on the case's
// name, the shapes, and TestSeed(); in narrower dtypes they differ only by rounding.
absl::StatusOr<Instance> MakeInstance(const OpCase& op_case, DType dtype, const std::vector<Shape>& shapes,
                                      int unknown_axis = -1);

// `values` rounded to `dtype`.
Tensor MakeTensor(DType dtype, const Array& values);
Array ToArray(const Tensor& tensor);
// A few units of the rounding error of `dtype`; 0 for integers and bool.
double Rounding(DType dtype);

}  // namespace belfry::harness
