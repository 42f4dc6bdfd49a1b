#include "ops/builtin_ops.h"
#include "ops/pooling/pooling_ops.h"

namespace belfry::ops {

void RegisterPoolingOps(OpRegistry& registry) { RegisterPool(registry); }

}  // namespace belfry::ops
