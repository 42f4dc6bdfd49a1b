#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "framework/base/shape.h"
#include "framework/graph/attr.h"

namespace belfry::ops {

// The shapes of a gather: params [outer, rows, inner], result [outer, count, inner].
struct GatherLayout {
  int64_t outer = 1, rows = 1, count = 1, inner = 1;
};

// The layout given by the attribute "axis".
absl::StatusOr<GatherLayout> MakeGatherLayout(const Attrs& attrs, const Shape& params, const Shape& indices);

}  // namespace belfry::ops
