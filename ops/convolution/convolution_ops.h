// Registration of the convolution ops, by source file. Internal.
#pragma once

#include "framework/graph/op_def.h"

namespace belfry::ops {

void RegisterConv2D(OpRegistry& registry);  // conv2d.cc
void RegisterFused(OpRegistry& registry);   // fused.cc

}  // namespace belfry::ops
