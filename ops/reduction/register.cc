#include "ops/builtin_ops.h"
#include "ops/reduction/reduction_ops.h"

namespace belfry::ops {

void RegisterReductionOps(OpRegistry& registry) {
  RegisterAxisScans(registry);
  RegisterExtremes(registry);
  RegisterTopK(registry);
  RegisterSums(registry);
}

}  // namespace belfry::ops
