#include "ops/builtin_ops.h"
#include "ops/math/math_ops.h"

namespace belfry::ops {

void RegisterMathOps(OpRegistry& registry) {
  RegisterArithmetic(registry);
  RegisterAddN(registry);
  RegisterComparisons(registry);
  RegisterExponentials(registry);
  RegisterRounding(registry);
  RegisterTrigonometric(registry);
  RegisterAxisScans(registry);
  RegisterExtremes(registry);
  RegisterL2Loss(registry);
  RegisterTopK(registry);
  RegisterSums(registry);
  RegisterMatMul(registry);
}

}  // namespace belfry::ops
