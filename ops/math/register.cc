#include "ops/builtin_ops.h"
#include "ops/math/math_ops.h"

namespace belfry::ops {

void RegisterMathOps(OpRegistry& registry) {
  RegisterArithmetic(registry);
  RegisterAddN(registry);
  RegisterSums(registry);
  RegisterMatMul(registry);
}

}  // namespace belfry::ops
