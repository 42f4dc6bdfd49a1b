// Registration of the random ops. Internal to ops/random/.
#pragma once

#include "framework/graph/op_def.h"

namespace belfry::ops {

void RegisterUniformOps(OpRegistry& registry);
void RegisterNormalOps(OpRegistry& registry);

}  // namespace belfry::ops
