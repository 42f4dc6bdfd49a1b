// Registration of the reductions, by source file. Internal.
#pragma once

#include "framework/graph/op_def.h"

namespace belfry::ops {

void RegisterAxisScans(OpRegistry& registry);  // axis_scan.cc
void RegisterExtremes(OpRegistry& registry);   // extremes.cc
void RegisterTopK(OpRegistry& registry);       // top_k.cc
void RegisterSums(OpRegistry& registry);       // sums.cc

}  // namespace belfry::ops
