// Registration of the index ops, by source file. Internal.
#pragma once

#include "framework/graph/op_def.h"

namespace belfry::ops {

void RegisterGatherOps(OpRegistry& registry);  // gather.cc: Gather, GatherGrad
void RegisterOneHotOps(OpRegistry& registry);  // one_hot.cc

}  // namespace belfry::ops
