#include "ops/builtin_ops.h"
#include "ops/random/random_ops.h"

namespace belfry::ops {

void RegisterRandomOps(OpRegistry& registry) {
  RegisterUniformOps(registry);
  RegisterNormalOps(registry);
}

}  // namespace belfry::ops
