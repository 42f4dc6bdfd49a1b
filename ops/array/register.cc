#include "ops/builtin_ops.h"

namespace belfry::ops {

void RegisterArrayOps(OpRegistry&) {}

}  // namespace belfry::ops
