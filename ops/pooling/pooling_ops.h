// The parts of the pooling family. Internal.
#pragma once

#include "framework/graph/op_def.h"

namespace belfry::ops {

void RegisterPool(OpRegistry& registry);  // pool.cc

}  // namespace belfry::ops
