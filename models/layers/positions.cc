#include "models/layers/positions_impl.h"
#include "ops/array.h"
#include "ops/math.h"

namespace belfry::models {

Output PositionsAfter(const Scope& scope, Output past, Output steps) {
  const Output ones = ops::Cast(scope, ops::OnesLike(scope, steps), DType::kInt32);
  return ops::Add(scope, ops::ExpandDims(scope, past, 1), ops::Cumsum(scope, ones, 1, {.exclusive = true}));
}

Output FirstRows(const Scope& scope, Output table, Output tokens) {
  const int64_t t = tokens.shape()[1];
  if (t != Shape::kUnknown) return ops::Slice(scope, table, {0, 0}, {t, table.shape()[1]});
  const Output ones = ops::OnesLike(scope, ops::StridedSlice(scope, tokens, {0}, {1}));
  return ops::Gather(scope, table, ops::Cumsum(scope, ones, 1, {.exclusive = true}));
}

}  // namespace belfry::models
