// Arithmetic, reductions and matrix products.
//
// Unless stated otherwise: operands have any numeric dtype; binary ops take two tensors of one dtype and broadcast by
// NumPy's rules (BroadcastShapes); 16-bit floats are computed in float and rounded once; integers wrap around; NaN
// propagates; and every op on floats is differentiable. An Operand may be a number, as in Sub(scope, 1, x).
//
// ops/formula.h has the same ops without a scope: 1 - x.
#pragma once

#include <initializer_list>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/graph/scope.h"
#include "ops/operand.h"

namespace belfry::ops {

// --- Arithmetic ---

Output Add(OpScope scope, const Operand& a, const Operand& b);
Output Sub(OpScope scope, const Operand& a, const Operand& b);
// A number times a tensor of floats is Scale.
Output Mul(OpScope scope, const Operand& a, const Operand& b);
// a / b, floats only (op "RealDiv").
Output Div(OpScope scope, const Operand& a, const Operand& b);
// (a - b)^2.
Output SquaredDifference(OpScope scope, const Operand& a, const Operand& b);
Output Neg(OpScope scope, Output x);
// x^2.
Output Square(OpScope scope, Output x);
// factor * x, floats only. The factor is rounded to the dtype in which x is computed.
Output Scale(OpScope scope, Output x, double factor);
// The floor of a / b, and the remainder, which has the sign of b: Python's // and %. An integer division by 0 fails the
// step on a CPU; on a GPU, whose kernels cannot fail, it gives 0. Floats are divided as CPython divides them, from the
// exact remainder; by 0 the quotient is infinite or NaN, and the remainder NaN.
Output FloorDiv(OpScope scope, const Operand& a, const Operand& b);  // not differentiable
Output FloorMod(OpScope scope, const Operand& a, const Operand& b);
// The maximum and the minimum; NaN if either operand is NaN. Where a == b the gradient goes to a.
Output Maximum(OpScope scope, const Operand& a, const Operand& b);
Output Minimum(OpScope scope, const Operand& a, const Operand& b);
// x clamped to [low, high], floats only. The gradient is 0 outside.
Output ClipByValue(OpScope scope, Output x, double low, double high);
Output Abs(OpScope scope, Output x);
Output Sign(OpScope scope, Output x);   // -1, 0 or 1; not differentiable
Output Floor(OpScope scope, Output x);  // Floor, Ceil, Round: floats only, not differentiable
Output Ceil(OpScope scope, Output x);
Output Round(OpScope scope, Output x);  // half to even
// Round, whose gradient passes as if it were not there: the straight-through estimator (Bengio, Léonard and Courville,
// "Estimating or propagating gradients through stochastic neurons for conditional computation", 2013).
Output RoundThrough(OpScope scope, Output x);
// The sum of one or more tensors of one shape. 16-bit floats are rounded once, not after each addition.
Output AddN(OpScope scope, absl::Span<const Output> inputs);

// --- Functions of floats, accurate to a few ulp; float32 results below 1e-37 may flush to 0 ---

Output Exp(OpScope scope, Output x);
Output Expm1(OpScope scope, Output x);  // exp(x) - 1, accurate near 0
Output Log(OpScope scope, Output x);
Output Log1p(OpScope scope, Output x);  // log(1 + x), accurate near 0
Output Sqrt(OpScope scope, Output x);
Output Rsqrt(OpScope scope, Output x);       // 1 / sqrt(x)
Output Reciprocal(OpScope scope, Output x);  // 1 / x
// a^b. Where a <= 0, the gradient with respect to b is 0. Where b is 0, so is that with respect to a.
Output Pow(OpScope scope, const Operand& a, const Operand& b);
Output Sigmoid(OpScope scope, Output x);  // 1 / (1 + exp(-x))
Output Tanh(OpScope scope, Output x);
Output Sin(OpScope scope, Output x);
Output Cos(OpScope scope, Output x);
Output Tan(OpScope scope, Output x);
Output Asin(OpScope scope, Output x);
Output Acos(OpScope scope, Output x);
Output Atan(OpScope scope, Output x);
// The angle of the point (x, y), in [-pi, pi]. At the origin the gradients are 0.
Output Atan2(OpScope scope, const Operand& y, const Operand& x);
Output Sinh(OpScope scope, Output x);
Output Cosh(OpScope scope, Output x);
Output Erf(OpScope scope, Output x);   // 2 / sqrt(pi) times the integral of exp(-t^2) from 0 to x
Output Erfc(OpScope scope, Output x);  // 1 - erf(x), accurate for large x

// --- Comparisons and logic: results are bool and not differentiable ---

Output Equal(OpScope scope, const Operand& a, const Operand& b);     // any dtype
Output NotEqual(OpScope scope, const Operand& a, const Operand& b);  // any dtype
Output Less(OpScope scope, const Operand& a, const Operand& b);
Output LessEqual(OpScope scope, const Operand& a, const Operand& b);
Output Greater(OpScope scope, const Operand& a, const Operand& b);
Output GreaterEqual(OpScope scope, const Operand& a, const Operand& b);
Output LogicalAnd(OpScope scope, Output a, Output b);  // LogicalAnd, Or, Xor, Not: bool only
Output LogicalOr(OpScope scope, Output a, Output b);
Output LogicalXor(OpScope scope, Output a, Output b);
Output LogicalNot(OpScope scope, Output x);
Output IsNan(OpScope scope, Output x);  // IsNan, IsInf, IsFinite: floats only
Output IsInf(OpScope scope, Output x);
Output IsFinite(OpScope scope, Output x);

// --- Reductions ---

// The axes of a reduction, each at most once. Axes() means all of them; negative axes count from the end.
//   Sum(scope, x)   Sum(scope, x, 0)   Sum(scope, x, {0, -1}, /*keep_dims=*/true)
class Axes {
 public:
  Axes() : all_(true) {}
  Axes(int axis) : values_({axis}) {}                            // NOLINT: implicit on purpose
  Axes(int64_t axis) : values_({axis}) {}                        // NOLINT
  Axes(std::initializer_list<int64_t> axes) : values_(axes) {}   // NOLINT
  Axes(std::vector<int64_t> axes) : values_(std::move(axes)) {}  // NOLINT: an empty vector reduces nothing
  Axes(bool) = delete;                                           // catches keep_dims in the wrong place
  bool all() const { return all_; }
  const std::vector<int64_t>& values() const { return values_; }

 private:
  bool all_ = false;
  std::vector<int64_t> values_;
};

// Reduces `axes`, which are removed, or keep extent 1 if keep_dims. Floats are summed in blocks, and the blocks in
// double; the order of additions depends only on the shape. The sum of no elements is 0, their mean NaN. Mean: floats
// only.
Output Sum(OpScope scope, Output x, const Axes& axes = {}, bool keep_dims = false);
Output Mean(OpScope scope, Output x, const Axes& axes = {}, bool keep_dims = false);

// The largest and the smallest element; NaN if any element is NaN. Of no elements, minus and plus infinity, or the
// extremes of the integer type. The gradient is divided evenly among the elements that equal the result.
Output Max(OpScope scope, Output x, const Axes& axes = {}, bool keep_dims = false);
Output Min(OpScope scope, Output x, const Axes& axes = {}, bool keep_dims = false);
// log(sum(exp(x))), without overflow; floats only. Of no elements, minus infinity. Of elements that are all minus
// infinity, too, with a gradient of 0: none of them has a share in the result.
Output LogSumExp(OpScope scope, Output x, const Axes& axes = {}, bool keep_dims = false);
// The product; 1 without elements. Floats are multiplied in double. The gradient of an element is the product of all
// others, also where elements are 0, infinite or NaN. A second derivative of n elements takes n^2 products.
Output Prod(OpScope scope, Output x, const Axes& axes = {}, bool keep_dims = false);
// Logical or and logical and of bool elements; without elements, false and true.
Output Any(OpScope scope, Output x, const Axes& axes = {}, bool keep_dims = false);
Output All(OpScope scope, Output x, const Axes& axes = {}, bool keep_dims = false);
// The Euclidean norm, floats only. Squares neither overflow nor vanish: the norm of finite elements is infinite only if
// it exceeds the largest number of the dtype. Its gradient is x / norm, and 0 where the norm is 0, at which it has no
// derivative; Sqrt(Sum(Square(x))) gives NaN there.
Output Norm(OpScope scope, Output x, const Axes& axes = {}, bool keep_dims = false);
// x / max(norm, epsilon), where the norm is over `axes`; epsilon in [0, 1]. Zeros stay zeros, with a gradient of 0.
// Floats only.
Output L2Normalize(OpScope scope, Output x, const Axes& axes = {}, double epsilon = 1e-12);
// Half the sum of squares of all elements, a scalar; floats only. Infinite if that exceeds the dtype.
Output L2Loss(OpScope scope, Output x);

// The index of the largest or smallest element along `axis`, which is removed: the first among equals, or the first
// NaN. int32 or int64. An axis without elements is an error. Not differentiable.
Output ArgMax(OpScope scope, Output x, int axis, DType index_type = DType::kInt64);
Output ArgMin(OpScope scope, Output x, int axis, DType index_type = DType::kInt64);

// The k largest elements along the last axis in descending order (NaN first, equal elements by index), and their int32
// indices along that axis: both [..., k]. The values are differentiable. Invalid Outputs after an error.
struct TopKOutputs {
  Output values, indices;
};
TopKOutputs TopK(OpScope scope, Output x, int64_t k);
// Tells for each row if the target is among the k largest predictions: predictions [N, C] (floats) and targets [N]
// (int32 or int64) give bool [N], true if fewer than k classes have a larger prediction than the target's. False for a
// row with a NaN or infinity, or a target outside [0, C). Not differentiable.
Output InTopK(OpScope scope, Output predictions, Output targets, int64_t k);

struct CumsumOptions {
  bool exclusive = false;  // leaves each element out of its own sum; the first sum is 0
  bool reverse = false;    // sums from the end
};
// Cumulative sums along `axis`, in the shape of x; floats are added in double.
Output Cumsum(OpScope scope, Output x, int axis, const CumsumOptions& options = {});

// Sums x to the shape of `like`, which must broadcast to the shape of x: the gradient of broadcasting. Returns x itself
// if both shapes are known and equal. Only the shape of `like` is used.
Output SumLike(OpScope scope, Output x, Output like);

// --- Matrices ---

struct MatMulOptions {
  bool transpose_a = false, transpose_b = false;  // transposes the last two axes of the operand
};
// Matrix product: a [..., m, k] times b [..., k, n] gives [..., m, n]; leading axes broadcast. Floats, int32 and int64.
Output MatMul(OpScope scope, Output a, Output b, const MatMulOptions& options = {});
// Einstein's summation: Einsum(scope, "bthd,bshd->bhts", {q, k}). A letter names an axis of the operands; letters that
// the result lacks are summed over. Without "->" the result has the letters that occur once, in alphabetical order. It
// becomes transpositions, sums and matrix products, pair by pair from the left. InvalidArgument, with the equation, if
// operands do not fit; neither an ellipsis nor a letter twice in one operand is supported. The dtypes are MatMul's.
Output Einsum(OpScope scope, absl::string_view equation, absl::Span<const Output> operands);

}  // namespace belfry::ops
