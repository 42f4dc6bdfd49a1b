#include "ops/builtin_ops.h"
#include "ops/elementwise/elementwise_ops.h"

namespace belfry::ops {

void RegisterElementwiseOps(OpRegistry& registry) {
  RegisterArithmetic(registry);
  RegisterAddN(registry);
  RegisterComparisons(registry);
  RegisterExponentials(registry);
  RegisterRounding(registry);
  RegisterTrigonometric(registry);
  RegisterSelectOps(registry);
  RegisterCheckNumerics(registry);
}

}  // namespace belfry::ops
