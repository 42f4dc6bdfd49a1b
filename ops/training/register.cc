#include "ops/builtin_ops.h"

namespace belfry::ops {

void RegisterTrainingOps(OpRegistry&) {}

}  // namespace belfry::ops
