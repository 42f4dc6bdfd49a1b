#include <limits>

#include "ops/array.h"
#include "ops/math.h"
#include "ops/reduction/reduction_ops.h"

namespace belfry::ops {

Output DropReduced(const Scope& scope, Output kept, const Axes& axes) {
  if (axes.all()) return Reshape(scope, kept, {});
  return axes.values().empty() ? kept : Squeeze(scope, kept, axes.values());
}

Output LogSumExp(OpScope scope, Output x, const Axes& axes, bool keep_dims) {
  if (!x.valid()) return scope.Add("LogSumExp", {x});  // an error
  const DType dtype = x.dtype();
  const bool narrow = dtype == DType::kFloat16 || dtype == DType::kBFloat16;
  const Output wide = narrow ? Cast(scope, x, DType::kFloat32) : x;
  // The largest number, or 0 if that is infinite or NaN: subtracting it from itself would give NaN.
  const Output largest = StopGradient(scope, Max(scope, wide, axes, true));
  const Output shift = Select(scope, IsFinite(scope, largest), largest, ZerosLike(scope, largest));
  const Output sum = Sum(scope, Exp(scope, Sub(scope, wide, shift)), axes, true);
  // Without the first selection, a sum of 0 would have the gradient 0 / 0.
  const Output none = Equal(scope, sum, ZerosLike(scope, sum));
  const Output log = Log(scope, Select(scope, none, OnesLike(scope, sum), sum));
  const Output nothing = Fill(scope, {}, -std::numeric_limits<double>::infinity(), wide.dtype());
  const Output kept = Add(scope, Select(scope, none, nothing, log), shift);
  const Output y = keep_dims ? kept : DropReduced(scope, kept, axes);
  return narrow ? Cast(scope, y, dtype) : y;
}

}  // namespace belfry::ops
