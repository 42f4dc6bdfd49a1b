// A test case for an op: how it is built, its inputs, and the expected result. The tests of op_case_test.cc are derived
// from it.
//
// To add a case, append an OpCase to a list in tests/ops/cases/<family>_cases*.cc:
//
//   cases.push_back({.name = "AddRowToMatrix",
//                    .inputs = {{{3, 5}}, {{5}}},
//                    .build = [](const Scope& scope, const Ins& in) { return Outs{ops::Add(scope, in[0], in[1])}; },
//                    .reference = [](const Arrays& in) {
//                      Array y(in[0].shape);
//                      for (int64_t i = 0; i < y.size(); ++i) y[i] = in[0][i] + in[1][i % 5];
//                      return Arrays{y};
//                    }});
//
// A new file defines a function that returns such a list; declare it in tests/ops/cases/cases.h, call it in
// all_cases.cc and add the file to tests/ops/CMakeLists.txt. Every op must appear in at least one case, possibly as
// part of a gradient; registry_test.cc checks that.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "framework/base/dtype.h"
#include "framework/base/shape.h"
#include "framework/graph/scope.h"

namespace belfry::harness {

// A tensor for references: its elements in double whatever the dtype (bool: 0 or 1), in row-major order.
struct Array {
  Shape shape;
  std::vector<double> values;

  explicit Array(const Shape& s = {}, double fill = 0) : shape(s), values(static_cast<size_t>(s.elements()), fill) {}
  int64_t size() const { return static_cast<int64_t>(values.size()); }
  double& operator[](int64_t i) { return values[static_cast<size_t>(i)]; }
  double operator[](int64_t i) const { return values[static_cast<size_t>(i)]; }
};

using Ins = std::vector<Output>;
using Outs = std::vector<Output>;
using Arrays = std::vector<Array>;

// An input: a placeholder with random values.
struct Input {
  Shape shape;
  double low = -1, high = 1;   // drawn uniformly from [low, high); integers too
  std::optional<DType> dtype;  // fixed; if absent, the dtype under test (OpCase::dtypes)
  bool differentiable = true;  // for floating-point inputs: whether the gradient is checked
  double gap = 0;              // minimum distance of values from each other and from 0, if there is room; avoids ties
  std::vector<double> values;  // used instead of random values if there is one per element
  bool variable = false;       // a Variable that the op updates, instead of a placeholder
};

struct OpCase {
  std::string name;  // letters and digits, unique
  std::vector<Input> inputs;
  // Builds the op under test. Called many times, with inputs of every dtype in `dtypes` and of every shape below. To
  // pass a Variable to the op, use scope.graph().VariableOf(*in[0].node).
  std::function<Outs(const Scope& scope, const Ins& in)> build;
  // Computes the outputs naively, from inputs rounded to the dtype under test. If null, there is nothing to compare
  // with (random numbers), and only the other checks run.
  std::function<Arrays(const Arrays& in)> reference;

  // Dtypes of inputs without a fixed one.
  std::vector<DType> dtypes = {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16};
  // More input shapes, one list each, for the forward checks: empty, one element, odd, larger than a block.
  std::vector<std::vector<Shape>> more_shapes;
  // Allowed error, in a few units of the dtype's rounding error relative to max(1, largest value of the output).
  double tolerance = 1;
  // More allowed error of float32, relative to max(1, largest value): that of algorithms that trade rounding for speed.
  double float32_error = 0;
  bool gradient = true;                 // checked against finite differences in double, and other dtypes against double
  double gradient_tolerance = 1;        // in units of 1e-6; for the other dtypes, a factor on `tolerance`
  std::vector<int> unknown_axes = {0};  // axes of all inputs that may be unknown while the graph is built
  bool thread_dependent = false;        // results on 1 and 2 threads agree within `tolerance`, not bit for bit
};

}  // namespace belfry::harness
