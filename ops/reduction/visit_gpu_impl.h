// Passes over a tensor together with a smaller one that broadcasts to it. Only for .cu files.
#pragma once

#include <vector>

#include "framework/base/status.h"
#include "framework/graph/kernel.h"
#include "ops/elementwise/broadcast_gpu_impl.h"
#include "ops/reduction/reduce_plan_impl.h"

namespace belfry::ops {

// Calls visit(i, a) for every element i of the plan's operand b, which has the size of the result; a is the offset of
// the matching element of operand a. `visit` is small and trivially copyable, with a device operator().
template <class Visit>
absl::Status GpuVisit(Stream& stream, int64_t n, const GpuBroadcast& plan, const Visit& visit) {
  if (plan.loops == 0) {
    const int64_t step = plan.stride_a;
    return gpu::ForEach(stream, n, [=] BELFRY_GPU(int64_t i) { visit(i, i * step); });
  }
  return gpu::ForEach(stream, n, [=] BELFRY_GPU(int64_t i) {
    int64_t at_a, at_b;
    if (CountsIn32Bits(n)) {
      plan.Find(static_cast<uint32_t>(i), at_a, at_b);
    } else {
      plan.Find(i, at_a, at_b);
    }
    visit(i, at_a);
  });
}

// A plan for GpuVisit, whose operand a is the outputs of a reduction of `x` over the attribute "axes". REQUIRES: x has
// elements.
inline absl::StatusOr<GpuBroadcast> PlanGpuVisit(const KernelSpec& spec, const Shape& x) {
  ASSIGN_OR_RETURN(const std::vector<bool> reduced, ReducedAxes(spec.attrs.Ints("axes"), x.rank()));
  ASSIGN_OR_RETURN(const BroadcastPlan plan, PlanBroadcast(KeepReduced(x, reduced), x));
  return GpuBroadcast(plan);
}

}  // namespace belfry::ops
