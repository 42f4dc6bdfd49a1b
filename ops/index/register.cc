#include "ops/builtin_ops.h"
#include "ops/index/index_ops.h"

namespace belfry::ops {

void RegisterIndexOps(OpRegistry& registry) {
  RegisterFlatIndicesOps(registry);
  RegisterGatherOps(registry);
  RegisterOneHotOps(registry);
  RegisterScatterOps(registry);
}

}  // namespace belfry::ops
