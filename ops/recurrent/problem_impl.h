// The sizes of one recurrence and the graph around it, shared by its ops. Internal.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/base/shape.h"
#include "framework/graph/kernel.h"
#include "framework/graph/op_def.h"
#include "framework/graph/scope.h"

namespace belfry::ops::recurrent {

struct Problem {
  int64_t n = 0, t = 0, h = 0;  // batch, steps, units

  constexpr int64_t At(int64_t batch, int64_t step) const { return (batch * t + step) * h; }  // in [N, T, H]
  // Floating-point operations of the recurrent products.
  double Flops(int64_t gates) const { return 2 * static_cast<double>(n * t * h) * static_cast<double>(gates * h); }
};

// Of a node whose inputs begin with gates [N, T, gates H] and weights [H, gates H].
Problem MakeProblem(const KernelSpec& spec);

// [N, T, H] from such inputs and states [N, H]. InvalidArgument if they do not fit.
absl::StatusOr<Shape> OutputShape(const Shape& projected, const Shape& weights, absl::Span<const Shape> states,
                                  int64_t gates);

// x [N, T, I] times weights [I, G], plus the biases [G] unless invalid: [N, T, G]. Invalid after an error.
Output Project(const Scope& scope, absl::string_view op, const Output& x, const Output& weights, const Output& biases);

// `dy`, or zeros like `y` where no gradient flows.
Output GradientOr0(const Scope& scope, const Output& dy, const Output& y);

// The gradient of recurrent weights [H, G]: the hidden states before each step, transposed, times the gradient dg
// [N, T, G] of their products. `initial` [N, H] comes before y [N, T, H].
Output WeightsGradient(const Scope& scope, const Output& initial, const Output& y, const Output& dg);

}  // namespace belfry::ops::recurrent
