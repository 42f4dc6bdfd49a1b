#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ops/elementwise/broadcast_impl.h"

namespace belfry::ops {
namespace {

int64_t ExtentAlong(const Shape& shape, int axis, int rank) {
  const int own = axis - (rank - shape.rank());
  return own < 0 ? 1 : shape[own];
}

}  // namespace

absl::StatusOr<BroadcastPlan> PlanBroadcast(const Shape& a, const Shape& b) {
  const int rank = std::max(a.rank(), b.rank());
  std::vector<BroadcastPlan::Loop> loops;  // innermost first
  int64_t size_a = 1, size_b = 1;
  for (int axis = rank; axis-- > 0;) {
    const int64_t x = ExtentAlong(a, axis, rank), y = ExtentAlong(b, axis, rank);
    const int64_t extent = x == 1 ? y : x;
    if (extent == 1) continue;
    const int64_t stride_a = x == 1 ? 0 : size_a, stride_b = y == 1 ? 0 : size_b;
    size_a *= x;
    size_b *= y;
    const bool alike = !loops.empty() && (stride_a == 0) == (loops.back().stride_a == 0) &&
                       (stride_b == 0) == (loops.back().stride_b == 0);
    if (alike) {
      loops.back().extent *= extent;
    } else {
      loops.push_back({extent, stride_a, stride_b});
    }
  }
  BroadcastPlan plan;
  if (loops.empty()) return plan;
  plan.inner = loops.front().extent;
  plan.stride_a = loops.front().stride_a == 0 ? 0 : 1;
  plan.stride_b = loops.front().stride_b == 0 ? 0 : 1;
  plan.loops = static_cast<int>(loops.size()) - 1;
  if (plan.loops > BroadcastPlan::kMaxLoops) {
    return absl::UnimplementedError(absl::StrCat("broadcasting ", a.ToString(), " with ", b.ToString(), " needs ",
                                                 plan.loops + 1, " nested loops; at most ",
                                                 BroadcastPlan::kMaxLoops + 1, " are supported"));
  }
  for (int l = 0; l < plan.loops; ++l) {
    plan.loop[l] = loops[plan.loops - l];
    plan.rows *= plan.loop[l].extent;
  }
  return plan;
}

}  // namespace belfry::ops
