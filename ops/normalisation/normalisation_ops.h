// Registration of the normalisation ops, by source file. Internal.
#pragma once

#include "framework/graph/op_def.h"

namespace belfry::ops {

void RegisterLrn(OpRegistry& registry);        // lrn.cc
void RegisterMoments(OpRegistry& registry);    // moments.cc
void RegisterBatchNorm(OpRegistry& registry);  // batch_norm.cc
void RegisterLayerNorm(OpRegistry& registry);  // layer_norm.cc

}  // namespace belfry::ops
