#include <cmath>

#include "models/layers/attention.h"
#include "models/layers/layers_impl.h"
#include "models/layers/positions_impl.h"
#include "ops/array.h"
#include "ops/math.h"

namespace belfry::models {

Output PositionsAfter(const Scope& scope, Output past, Output steps) {
  const Output ones = ops::Cast(scope, ops::OnesLike(scope, steps), DType::kInt32);
  return ops::Add(scope, ops::ExpandDims(scope, past, 1), ops::Cumsum(scope, ones, 1, {.exclusive = true}));
}

Output AnglesAt(const Scope& scope, Output positions, int64_t pairs, double base) {
  Tensor speeds(DType::kFloat64, {pairs});
  for (int64_t i = 0; i < pairs; ++i) {
    speeds.data<double>()[i] = std::pow(base, -static_cast<double>(i) / static_cast<double>(pairs));
  }
  return ops::Mul(scope, positions, ops::Const(scope, speeds));
}

Output SinusoidalPositions(OpScope scope, Output x) {
  if (!x.valid() || x.shape().rank() != 3 || x.shape()[2] < 1 || x.shape()[2] % 2 != 0) {
    return Reject(scope, "SinusoidalPositions", "", "needs [N, T, C] with a known, even C", x);
  }
  constexpr double kBase = 10'000;
  constexpr int64_t kEnd = ops::kSliceEnd;
  const Output steps = ops::OnesLike(scope, ops::StridedSlice(scope, x, {0, 0, 0}, {1, kEnd, 1}));  // [1, T, 1]
  const Output at = ops::Cumsum(scope, ops::Cast(scope, steps, DType::kFloat64), 1, {.exclusive = true});
  const Output angles = AnglesAt(scope, at, x.shape()[2] / 2, kBase);
  const Output pairs = ops::Stack(scope, {ops::Sin(scope, angles), ops::Cos(scope, angles)}, 3);
  return ops::Cast(scope, ops::MergeAxes(scope, pairs, 2, 3), x.dtype());
}

Output FirstRows(const Scope& scope, Output table, Output tokens) {
  const int64_t t = tokens.shape()[1];
  if (t != Shape::kUnknown) return ops::Slice(scope, table, {0, 0}, {t, table.shape()[1]});
  const Output ones = ops::OnesLike(scope, ops::StridedSlice(scope, tokens, {0}, {1}));
  return ops::Gather(scope, table, ops::Cumsum(scope, ones, 1, {.exclusive = true}));
}

}  // namespace belfry::models
