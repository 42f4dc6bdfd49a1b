// What transposing, slicing, padding, tiling and broadcasting come down to: a box of the result is copied from the
// input by strides, and the rest of the result is filled. Planned here once for every kind of device.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/graph/op_def.h"

namespace belfry::ops {

// One axis of the result.
struct BoxAxis {
  int64_t extent = 1;
  int64_t from = 0;  // elements of the input between neighbours of the box; 0 repeats one, and it may be negative
  int64_t begin = 0, step = 1, count = 1;  // the box: begin, begin + step, ..., `count` of them. step is at least 1

  bool whole() const { return begin == 0 && step == 1 && count == extent; }
};
inline BoxAxis WholeAxis(int64_t extent, int64_t from) { return {extent, from, 0, 1, extent}; }

struct BoxCopy {
  std::vector<BoxAxis> axes;  // of the result, in row-major order
  int64_t from_offset = 0;    // element of the input that the first element of the box is
  uint64_t fill = 0;          // bits of each element that is not in the box

  int64_t elements() const;    // of the box
  bool covers_result() const;  // nothing is filled
  // The same with fewer axes: neighbours that move together are one.
  BoxCopy Merged() const;
};

// From input 0 of a node to its output 0.
using BoxPlanner = absl::StatusOr<BoxCopy> (*)(const KernelSpec&);

absl::StatusOr<BoxCopy> PlanBroadcastTo(const KernelSpec& spec);  // BroadcastLike, too
absl::StatusOr<BoxCopy> PlanPad(const KernelSpec& spec);
absl::StatusOr<BoxCopy> PlanSlice(const KernelSpec& spec);
absl::StatusOr<BoxCopy> PlanSliceGrad(const KernelSpec& spec);
absl::StatusOr<BoxCopy> PlanStridedSlice(const KernelSpec& spec);
absl::StatusOr<BoxCopy> PlanStridedSliceGrad(const KernelSpec& spec);
absl::StatusOr<BoxCopy> PlanTile(const KernelSpec& spec);
absl::StatusOr<BoxCopy> PlanTranspose(const KernelSpec& spec);

// CPU kernels for every dtype.
std::vector<KernelDef> BoxCopyKernels(BoxPlanner plan);

}  // namespace belfry::ops
