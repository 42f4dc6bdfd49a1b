// Registration of the pooling ops, by source file. Internal.
#pragma once

#include "framework/graph/op_def.h"

namespace belfry::ops {

void RegisterPool(OpRegistry& registry);  // pool.cc

}  // namespace belfry::ops
