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

// --- Arithmetic ---

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
// a / b rounded down, and what remains, with the sign of b: Python's // and %. An integer b of 0 is an error of the
// step on a CPU; on a GPU, which cannot fail there, it gives 0.
Output FloorDiv(OpScope scope, Output a, Output b);  // not differentiable
Output FloorMod(OpScope scope, Output a, Output b);
// The larger, the smaller; NaN if either is. Where a == b the gradient goes to a.
Output Maximum(OpScope scope, Output a, Output b);
Output Minimum(OpScope scope, Output a, Output b);
// x moved into [low, high], floats only; the gradient is 0 outside.
Output ClipByValue(OpScope scope, Output x, double low, double high);
Output Abs(OpScope scope, Output x);
Output Sign(OpScope scope, Output x);   // -1, 0 or 1; not differentiable
Output Floor(OpScope scope, Output x);  // these three: floats only, not differentiable
Output Ceil(OpScope scope, Output x);
Output Round(OpScope scope, Output x);  // halves to the even integer
// The sum of tensors of one shape, at least one. 16-bit floats are rounded once, not after each addition.
Output AddN(OpScope scope, absl::Span<const Output> inputs);

// --- Functions of floats: to a few units of the last place; float32 results below 1e-37 may be 0 ---

Output Exp(OpScope scope, Output x);
Output Expm1(OpScope scope, Output x);  // exp(x) - 1, exact near 0
Output Log(OpScope scope, Output x);
Output Log1p(OpScope scope, Output x);  // log(1 + x), exact near 0
Output Sqrt(OpScope scope, Output x);
Output Rsqrt(OpScope scope, Output x);       // 1 / sqrt(x)
Output Reciprocal(OpScope scope, Output x);  // 1 / x
// a^b. Where a <= 0, the gradient with respect to b is 0.
Output Pow(OpScope scope, Output a, Output b);
Output Sigmoid(OpScope scope, Output x);  // 1 / (1 + exp(-x))
Output Tanh(OpScope scope, Output x);
Output Sin(OpScope scope, Output x);
Output Cos(OpScope scope, Output x);
Output Tan(OpScope scope, Output x);
Output Asin(OpScope scope, Output x);
Output Acos(OpScope scope, Output x);
Output Atan(OpScope scope, Output x);
Output Atan2(OpScope scope, Output y, Output x);  // the angle of (x, y) in [-pi, pi]
Output Sinh(OpScope scope, Output x);
Output Cosh(OpScope scope, Output x);
Output Erf(OpScope scope, Output x);   // 2 / sqrt(pi) times the integral of exp(-t^2) from 0 to x
Output Erfc(OpScope scope, Output x);  // 1 - erf(x), exact for large x

// --- Comparisons and logic: results are bool, nothing is differentiable ---

Output Equal(OpScope scope, Output a, Output b);     // any dtype
Output NotEqual(OpScope scope, Output a, Output b);  // any dtype
Output Less(OpScope scope, Output a, Output b);
Output LessEqual(OpScope scope, Output a, Output b);
Output Greater(OpScope scope, Output a, Output b);
Output GreaterEqual(OpScope scope, Output a, Output b);
Output LogicalAnd(OpScope scope, Output a, Output b);  // these four: bool only
Output LogicalOr(OpScope scope, Output a, Output b);
Output LogicalXor(OpScope scope, Output a, Output b);
Output LogicalNot(OpScope scope, Output x);
Output IsNan(OpScope scope, Output x);  // these three: floats only
Output IsInf(OpScope scope, Output x);
Output IsFinite(OpScope scope, Output x);

// --- Reductions ---

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

// The largest and the smallest element; NaN if any is. Without elements, minus and plus infinity, or the extremes of
// the integer type. The gradient is shared evenly by the elements that equal the result.
Output Max(OpScope scope, Output x, const Axes& axes = {}, bool keep_dims = false);
Output Min(OpScope scope, Output x, const Axes& axes = {}, bool keep_dims = false);
// The product, 1 without elements; floats are multiplied in double. Differentiable once, zeros among the elements or
// not.
Output Prod(OpScope scope, Output x, const Axes& axes = {}, bool keep_dims = false);
// Of bool: whether any element is true (false without elements), whether all are (true without).
Output Any(OpScope scope, Output x, const Axes& axes = {}, bool keep_dims = false);
Output All(OpScope scope, Output x, const Axes& axes = {}, bool keep_dims = false);
// Half the sum of the squares of all elements, a scalar; floats only.
Output L2Loss(OpScope scope, Output x);

// The index along `axis`, which goes, of the largest or smallest element: the first of equal ones, or of NaNs. int32 or
// int64. An axis without elements is an error. Not differentiable.
Output ArgMax(OpScope scope, Output x, int axis, DType index_type = DType::kInt64);
Output ArgMin(OpScope scope, Output x, int axis, DType index_type = DType::kInt64);

// The k largest elements along the last axis, from the largest down (NaN first, equal ones by index), and their indices
// along it, int32: both [..., k]. The values are differentiable, once. Invalid Outputs after an error.
struct TopKOutputs {
  Output values, indices;
};
TopKOutputs TopK(OpScope scope, Output x, int64_t k);
// For predictions [N, C] (floats) and targets [N] (int32 or int64), bool [N]: whether fewer than k classes have a
// larger prediction than the target's. False for a row with a NaN or infinity, or a target outside [0, C). Not
// differentiable.
Output InTopK(OpScope scope, Output predictions, Output targets, int64_t k);

struct CumsumOptions {
  bool exclusive = false;  // an element is not in its own sum, which starts at 0
  bool reverse = false;    // from the end
};
// Sums of the elements up to each one along `axis`, in the shape of x; floats are added in double.
Output Cumsum(OpScope scope, Output x, int axis, const CumsumOptions& options = {});

// x summed to the shape of `like`, which must broadcast to that of x: the gradient of broadcasting. x itself if both
// shapes are known and equal. Only the shape of `like` is used.
Output SumLike(OpScope scope, Output x, Output like);

// --- Matrices ---

struct MatMulOptions {
  bool transpose_a = false, transpose_b = false;  // swap the last two axes of the operand
};
// a [..., m, k] times b [..., k, n] gives [..., m, n]; leading axes broadcast. Floats, int32 and int64.
Output MatMul(OpScope scope, Output a, Output b, const MatMulOptions& options = {});

}  // namespace belfry::ops
