// Passes over a tensor and a smaller one that broadcasts to it. Only for .cu files.
#pragma once

#include "ops/elementwise/elementwise_gpu_impl.h"
#include "ops/reduction/reduce_plan_impl.h"

namespace belfry::ops {

// Calls visit(i, a) for the elements i of a plan's operand b, which is as large as the result: a is where the one of
// operand a lies. `visit` is small and trivially copyable, its operator() is for device code.
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

// For GpuVisit: operand a are the outputs of a reduction of `x` over attribute "axes". REQUIRES: x has elements.
inline absl::StatusOr<GpuBroadcast> PlanGpuVisit(const KernelSpec& spec, const Shape& x) {
  ASSIGN_OR_RETURN(const std::vector<bool> reduced, ReducedAxes(spec.attrs.Ints("axes"), x.rank()));
  ASSIGN_OR_RETURN(const BroadcastPlan plan, PlanBroadcast(KeepReduced(x, reduced), x));
  return GpuBroadcast(plan);
}

}  // namespace belfry::ops
