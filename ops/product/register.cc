#include "ops/builtin_ops.h"
#include "ops/product/product_ops.h"

namespace belfry::ops {

void RegisterProductOps(OpRegistry& registry) {
  RegisterMatMul(registry);
  RegisterFusedMatMul(registry);
}

}  // namespace belfry::ops
