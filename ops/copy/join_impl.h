// Concat, Stack, Split, SplitLike and Unstack: each part is a run of columns of the whole, whose rows are what stands
// before the axis.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/graph/op_def.h"

namespace belfry::ops {

struct JoinPlan {
  int64_t rows = 0, width = 0;   // of the whole
  std::vector<int64_t> columns;  // of each part; they add up to `width`
};

// From output 0, the attribute "axis" and the inputs, which are the parts.
absl::StatusOr<JoinPlan> PlanJoin(const KernelSpec& spec);
// From input 0, the attribute "axis" and the outputs, which are the parts.
absl::StatusOr<JoinPlan> PlanSplit(const KernelSpec& spec);

}  // namespace belfry::ops
