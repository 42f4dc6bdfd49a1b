#include "ops/builtin_ops.h"

namespace belfry::ops {

void AddGpuKernels(OpRegistry&) {}

}  // namespace belfry::ops
