#include "absl/strings/str_cat.h"
#include "ops/array.h"
#include "ops/math.h"
#include "ops/reduction/reduction_ops.h"

namespace belfry::ops {
namespace {

// The norm, with extent 1 in the reduced axes. Numbers are divided by the largest, whose gradient cancels out, so that
// their squares neither overflow nor vanish. Where all are 0, the root is taken of 1 instead, since it has no finite
// derivative at 0.
Output KeptNorm(const Scope& scope, Output x, const Axes& axes) {
  const Output largest = StopGradient(scope, Max(scope, Abs(scope, x), axes, true));
  const Output zeros = ZerosLike(scope, largest), one = Fill(scope, {}, 1, x.dtype());
  const Output ordinary = LogicalAnd(scope, Greater(scope, largest, zeros), IsFinite(scope, largest));
  const Output size = Select(scope, ordinary, largest, one);
  const Output squares = Sum(scope, Square(scope, Div(scope, x, size)), axes, true);
  const Output none = Equal(scope, squares, zeros);
  const Output root = Sqrt(scope, Select(scope, none, one, squares));
  return Mul(scope, Select(scope, none, zeros, root), size);
}

Output Widened(const Scope& scope, Output x) {
  const bool narrow = x.dtype() == DType::kFloat16 || x.dtype() == DType::kBFloat16;
  return narrow ? Cast(scope, x, DType::kFloat32) : x;
}

}  // namespace

Output Norm(OpScope scope, Output x, const Axes& axes, bool keep_dims) {
  if (!x.valid()) return Output();
  const Output kept = KeptNorm(scope, Widened(scope, x), axes);
  const Output norm = keep_dims ? kept : DropReduced(scope, kept, axes);
  return norm.valid() && norm.dtype() != x.dtype() ? Cast(scope, norm, x.dtype()) : norm;
}

Output L2Normalize(OpScope scope, Output x, const Axes& axes, double epsilon) {
  if (!x.valid()) return Output();
  if (!(epsilon >= 0 && epsilon <= 1)) {
    scope.Fail(
        absl::InvalidArgumentError(absl::StrCat("L2Normalize of ", x.name(), ": epsilon must be in [0, 1], but is ",
                                                epsilon, " (", scope.location().ToString(), ")")));
    return Output();
  }
  const Output wide = Widened(scope, x), norm = KeptNorm(scope, wide, axes);
  if (!norm.valid()) return Output();
  const Output none = Equal(scope, norm, ZerosLike(scope, norm)), one = Fill(scope, {}, 1, wide.dtype());
  const Output size = Maximum(scope, Select(scope, none, one, norm), Fill(scope, {}, epsilon, wide.dtype()));
  // The selection makes the gradient 0 where x is.
  const Output y = Select(scope, none, ZerosLike(scope, wide), Div(scope, wide, size));
  return y.valid() && y.dtype() != x.dtype() ? Cast(scope, y, x.dtype()) : y;
}

}  // namespace belfry::ops
