// The groups of ops that ops/state/register.cc adds.
#pragma once

#include "framework/graph/op_def.h"

namespace belfry::ops {

void RegisterAllReduce(OpRegistry& registry);  // all_reduce.cc

}  // namespace belfry::ops
