// Registration of the collectives, by source file. Internal.
#pragma once

#include "framework/graph/op_def.h"

namespace belfry::ops {

void RegisterCollectiveOps(OpRegistry& registry);  // collective.cc

}  // namespace belfry::ops
