#include "absl/strings/str_cat.h"
#include "ops/array.h"
#include "ops/math.h"
#include "ops/random.h"

namespace belfry::ops {

Output Categorical(OpScope scope, Output logits, const RandomOptions& options) {
  if (!logits.valid()) return scope.Add("Categorical", {logits});  // an error
  if (logits.shape().rank() == 0) {
    scope.Fail(absl::InvalidArgumentError("Categorical takes logits [..., classes], not a scalar"));
    return Output();
  }
  const DType dtype = logits.dtype() == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
  std::vector<Extent> extents;
  for (int axis = 0; axis < logits.shape().rank(); ++axis) extents.push_back(Extent::Of(logits, axis));
  const std::string key = options.key.empty() ? RandomKeyName(scope, "Categorical") : options.key;
  // Of exponential variates with the rates exp(logits), the least is each one with its probability; this is the
  // comparison of their logarithms (Gumbel's trick). Small variates decide, so they come from small uniform numbers,
  // which are the finest.
  constexpr double kMinUniform = 0x1p-33;
  const Output uniform = RandomUniform(scope, extents, kMinUniform, 1, {dtype, options.per_step, key});
  const Output exponential = Neg(scope, Log1p(scope, Neg(scope, uniform)));
  // The largest logit is subtracted first, because the noise would be lost in the rounding of large ones.
  const Output wide = Cast(scope, logits, dtype), largest = Max(scope, wide, -1, /*keep_dims=*/true);
  const Output shift = Select(scope, IsFinite(scope, largest), largest, ZerosLike(scope, largest));
  const Output scores = Sub(scope, Sub(scope, wide, shift), Log(scope, exponential));
  return ArgMax(scope, scores, -1, options.dtype);
}

}  // namespace belfry::ops
