// Plans of reductions over axes, made once per kernel, for CPUs and GPUs.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/base/shape.h"
#include "framework/graph/op_def.h"

namespace belfry::ops {

// Adjacent axes that are all reduced or all kept, merged into one; axes of extent 1 are left out.
struct ReduceGroup {
  int64_t extent, stride;
  bool reduced;
};
// The groups of a shape, innermost first. `reduced[axis]` marks the reduced axes. REQUIRES: `shape` is known.
std::vector<ReduceGroup> ReduceGroups(const Shape& shape, const std::vector<bool>& reduced);

// The offsets of a flattened loop nest: i * stride, or a table if the nest is not regular.
struct Offsets {
  int64_t count = 1, stride = 0;
  std::vector<int64_t> table;

  int64_t operator[](int64_t i) const { return table.empty() ? i * stride : table[i]; }
};

// The positions of the elements of each output. Adjacent axes of one kind are merged, so nearly every reduction has one
// of two forms: the innermost axes are reduced (columns == 1, each output combines `run` adjacent elements), or they
// are kept (run == 1, each of `reduced` rows holds `columns` adjacent elements of as many outputs).
struct ReducePlan {
  Offsets kept;     // offsets of the outputs' first elements; each covers `columns` outputs
  Offsets reduced;  // offsets of an output's elements from its first
  int64_t columns = 1, run = 1;

  int64_t outputs() const { return kept.count * columns; }
  int64_t reduced_elements() const { return reduced.count * run; }
};

// `reduced[axis]` marks the reduced axes. REQUIRES: `shape` is known.
absl::StatusOr<ReducePlan> PlanReduce(const Shape& shape, const std::vector<bool>& reduced);
// Marks the axes in the attribute "axes" of a reduction. InvalidArgument if one is outside the rank or listed twice.
absl::StatusOr<std::vector<bool>> ReducedAxes(absl::Span<const int64_t> axes, int rank);
// `shape` with extent 1 on the reduced axes.
Shape KeepReduced(const Shape& shape, const std::vector<bool>& reduced);
// Marks the axes that broadcasting `like` to `shape` stretches. REQUIRES: `like` broadcasts to `shape`.
std::vector<bool> BroadcastAxes(const Shape& shape, const Shape& like);
// The result's shape, from the attributes "axes" and "keep_dims".
absl::StatusOr<std::vector<Shape>> ReduceShape(const ShapeArgs& args);

}  // namespace belfry::ops
