#include "ops/array/array_ops.h"
#include "ops/builtin_ops.h"

namespace belfry::ops {

void RegisterArrayOps(OpRegistry& registry) {
  RegisterConstantOps(registry);
  RegisterViewOps(registry);
  RegisterCastOps(registry);
  RegisterBroadcastOps(registry);
}

}  // namespace belfry::ops
