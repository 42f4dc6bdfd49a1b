#include "ops/builtin_ops.h"

namespace belfry::ops {

void RegisterRandomOps(OpRegistry&) {}

}  // namespace belfry::ops
