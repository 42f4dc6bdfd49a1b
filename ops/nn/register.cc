#include "ops/builtin_ops.h"

namespace belfry::ops {

void RegisterNnOps(OpRegistry&) {}

}  // namespace belfry::ops
