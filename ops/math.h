// Arithmetic, reductions and matrix products.
//
// Unless said otherwise: x, a and b are of any numeric dtype, binary ops broadcast under NumPy's rules
// (BroadcastShapes) and take two tensors of one dtype, 16-bit floats are computed in float and rounded once, integers
// wrap around, NaN propagates, and every op on floats is differentiable.
#pragma once

#include <initializer_list>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "framework/graph/scope.h"

namespace belfry::ops {

// --- Arithmetic
// -------------------------------------------------------------------------------------------------------

Output Add(OpScope scope, Output a, Output b);
Output Sub(OpScope scope, Output a, Output b);
Output Mul(OpScope scope, Output a, Output b);
// a / b, floats only (op "RealDiv").
Output Div(OpScope scope, Output a, Output b);
// (a - b)^2.
Output SquaredDifference(OpScope scope, Output a, Output b);
Output Neg(OpScope scope, Output x);
// x^2.
Output Square(OpScope scope, Output x);
// factor * x, floats only. The factor is rounded to the type that x is computed in.
Output Scale(OpScope scope, Output x, double factor);
// The sum of tensors of one shape, at least one. 16-bit floats are rounded once, not after each addition.
Output AddN(OpScope scope, absl::Span<const Output> inputs);

// --- Reductions
// -------------------------------------------------------------------------------------------------------

// Axes of a reduction: Axes() is all of them; a negative axis counts from the end. Each at most once.
//   Sum(scope, x)   Sum(scope, x, 0)   Sum(scope, x, {0, -1}, /*keep_dims=*/true)
class Axes {
 public:
  Axes() : all_(true) {}
  Axes(int axis) : values_({axis}) {}                            // NOLINT: converts on purpose
  Axes(int64_t axis) : values_({axis}) {}                        // NOLINT
  Axes(std::initializer_list<int64_t> axes) : values_(axes) {}   // NOLINT
  Axes(std::vector<int64_t> axes) : values_(std::move(axes)) {}  // NOLINT: an empty vector reduces nothing
  Axes(bool) = delete;                                           // a keep_dims in the wrong place
  bool all() const { return all_; }
  const std::vector<int64_t>& values() const { return values_; }

 private:
  bool all_ = false;
  std::vector<int64_t> values_;
};

// Over `axes`, which go, or stay with extent 1 if keep_dims. Floats are added up in blocks and the blocks in double;
// the order depends on the shape only. Without elements, a sum is 0 and a mean NaN. Mean: floats only.
Output Sum(OpScope scope, Output x, const Axes& axes = {}, bool keep_dims = false);
Output Mean(OpScope scope, Output x, const Axes& axes = {}, bool keep_dims = false);

// x summed to the shape of `like`, which must broadcast to that of x: the gradient of broadcasting. x itself if both
// shapes are known and equal. Only the shape of `like` is used.
Output SumLike(OpScope scope, Output x, Output like);

// --- Matrices
// ---------------------------------------------------------------------------------------------------------

struct MatMulOptions {
  bool transpose_a = false, transpose_b = false;  // swap the last two axes of the operand
};
// a [..., m, k] times b [..., k, n] gives [..., m, n]; leading axes broadcast. Floats, int32 and int64.
Output MatMul(OpScope scope, Output a, Output b, const MatMulOptions& options = {});

}  // namespace belfry::ops
