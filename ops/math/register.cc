#include "ops/builtin_ops.h"

namespace belfry::ops {

void RegisterMathOps(OpRegistry&) {}

}  // namespace belfry::ops
