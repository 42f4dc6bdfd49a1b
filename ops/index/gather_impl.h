#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "framework/base/shape.h"
#include "framework/graph/attr.h"
#include "framework/graph/op_def.h"

namespace belfry::ops {

// The shapes of a gather: params [outer, rows, inner], result [outer, count, inner].
struct GatherLayout {
  int64_t outer = 1, rows = 1, count = 1, inner = 1;
};

// The shape of a gather along the attribute "axis".
absl::StatusOr<Shape> GatheredShape(const Attrs& attrs, const Shape& params, const Shape& indices);
// The layout given by the attribute "axis".
absl::StatusOr<GatherLayout> MakeGatherLayout(const Attrs& attrs, const Shape& params, const Shape& indices);

template <class Index>
absl::Status CheckIndices(const Index* indices, const GatherLayout& layout) {
  for (int64_t i = 0; i < layout.count; ++i) {
    if (indices[i] >= 0 && indices[i] < layout.rows) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("index ", indices[i], " (at position ", i, ") is outside [0, ", layout.rows, ")"));
  }
  return absl::OkStatus();
}

// The layout of a ScatterRows node; its rows are its result's.
GatherLayout ScatterLayout(const KernelSpec& spec);

}  // namespace belfry::ops
