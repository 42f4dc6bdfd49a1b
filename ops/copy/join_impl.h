// Plans for Concat, Stack, Split, SplitLike and Unstack. The whole is a matrix whose rows are the extents before the
// axis; each part is a range of its columns.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/graph/op_def.h"

namespace belfry::ops {

struct JoinPlan {
  int64_t rows = 0, width = 0;   // of the whole
  std::vector<int64_t> columns;  // of each part; their sum is `width`
};

// A plan from output 0, the attribute "axis" and the inputs as parts.
absl::StatusOr<JoinPlan> PlanJoin(const KernelSpec& spec);
// A plan from input 0, the attribute "axis" and the outputs as parts.
absl::StatusOr<JoinPlan> PlanSplit(const KernelSpec& spec);

}  // namespace belfry::ops
