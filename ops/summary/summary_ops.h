// Registration of the summaries, by source file. Internal.
#pragma once

#include "framework/graph/op_def.h"

namespace belfry::ops {

void RegisterSummaryOps(OpRegistry& registry);  // summary.cc

}  // namespace belfry::ops
