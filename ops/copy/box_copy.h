// The common form of transposing, slicing, padding, tiling and broadcasting: a box of the result is copied from the
// input by strides, and the rest of the result is filled. Planned here once for all device types.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/graph/op_def.h"

namespace belfry::ops {

// One axis of the result.
struct BoxAxis {
  int64_t extent = 1;
  int64_t from = 0;  // input stride between neighbours in the box, in elements: may be negative; 0 repeats
  int64_t begin = 0, step = 1, count = 1;  // indices begin, begin + step, ... of the box; step >= 1

  bool whole() const { return begin == 0 && step == 1 && count == extent; }
};
inline BoxAxis WholeAxis(int64_t extent, int64_t from) { return {extent, from, 0, 1, extent}; }

struct BoxCopy {
  std::vector<BoxAxis> axes;  // of the result, in row-major order
  int64_t from_offset = 0;    // input element that the first element of the box copies
  uint64_t fill = 0;          // bits of the elements outside the box

  int64_t elements() const;    // number of elements in the box
  bool covers_result() const;  // true if nothing is filled
  // The same copy with fewer axes: adjacent axes that are contiguous in both tensors are merged.
  BoxCopy Merged() const;
};

// Plans the copy from input 0 of a node to its output 0.
using BoxPlanner = absl::StatusOr<BoxCopy> (*)(const KernelSpec&);

absl::StatusOr<BoxCopy> PlanBroadcastTo(const KernelSpec& spec);  // also BroadcastLike
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
