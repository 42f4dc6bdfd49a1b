#include "ops/array.h"
#include "ops/math.h"

namespace belfry::ops {

Output LogSumExp(OpScope scope, Output x, const Axes& axes, bool keep_dims) {
  if (!x.valid()) return Output();
  const DType dtype = x.dtype();
  const bool narrow = dtype == DType::kFloat16 || dtype == DType::kBFloat16;
  const Output wide = narrow ? Cast(scope, x, DType::kFloat32) : x;
  // The largest number, or 0 if that is infinite or NaN: subtracting it from itself would give NaN.
  const Output most = StopGradient(scope, Max(scope, wide, axes, true));
  const Output shift = Select(scope, IsFinite(scope, most), most, ZerosLike(scope, most));
  Output y = Add(scope, Log(scope, Sum(scope, Exp(scope, Sub(scope, wide, shift)), axes, true)), shift);
  if (!keep_dims) {
    y = axes.all() ? Reshape(scope, y, {}) : axes.values().empty() ? y : Squeeze(scope, y, axes.values());
  }
  return narrow ? Cast(scope, y, dtype) : y;
}

}  // namespace belfry::ops
