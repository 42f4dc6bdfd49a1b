// Which elements a reduction over axes brings together, decided once per kernel. For CPUs and GPUs.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/base/shape.h"
#include "framework/graph/op_def.h"

namespace belfry::ops {

// Neighbouring axes of one kind, as one; axes of extent 1 are left out.
struct ReduceGroup {
  int64_t extent, stride;
  bool reduced;
};
// `reduced[axis]` tells which axes go. Innermost first. REQUIRES: `shape` is known.
std::vector<ReduceGroup> ReduceGroups(const Shape& shape, const std::vector<bool>& reduced);

// Offsets of a loop nest, flattened: i * stride, or a table where the nest is not regular.
struct Offsets {
  int64_t count = 1, stride = 0;
  std::vector<int64_t> table;

  int64_t operator[](int64_t i) const { return table.empty() ? i * stride : table[i]; }
};

// Where the elements lie that make up each output. Neighbouring axes of one kind are merged, so almost every reduction
// is one of two: the innermost axes are reduced (columns == 1, each output sums `run` neighbours), or they are kept
// (run == 1, each of `reduced` rows holds `columns` neighbours that belong to as many outputs).
struct ReducePlan {
  Offsets kept;     // of the outputs' first elements; each starts `columns` outputs
  Offsets reduced;  // added to those
  int64_t columns = 1, run = 1;

  int64_t outputs() const { return kept.count * columns; }
  int64_t reduced_elements() const { return reduced.count * run; }
};

// `reduced[axis]` tells which axes go. REQUIRES: `shape` is known.
ReducePlan PlanReduce(const Shape& shape, const std::vector<bool>& reduced);
// Marks for the canonical "axes" of a reduction; InvalidArgument for an axis outside the rank or named twice.
absl::StatusOr<std::vector<bool>> ReducedAxes(absl::Span<const int64_t> axes, int rank);
// `shape` with extent 1 on the reduced axes.
Shape KeepReduced(const Shape& shape, const std::vector<bool>& reduced);
// Marks for what broadcasting `like` to `shape` stretched. REQUIRES: it does.
std::vector<bool> BroadcastAxes(const Shape& shape, const Shape& like);
// The result's shape, from attributes "axes" and "keep_dims".
absl::StatusOr<std::vector<Shape>> ReduceShape(const ShapeArgs& args);

}  // namespace belfry::ops
