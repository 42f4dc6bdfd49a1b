#include "ops/losses/losses_ops.h"
#include "ops/reduction/reduce_gpu_impl.h"
#include "ops/reduction/reductions.h"

namespace belfry::ops {
namespace {

template <class T>
absl::StatusOr<Kernel> MakeL2Loss(const KernelSpec& spec) {
  const Shape& x = spec.inputs[0].shape;
  ASSIGN_OR_RETURN(const GpuReducePlan plan, PlanGpuReduce(x, std::vector<bool>(x.rank(), true)));
  return GpuReduceKernel<T>(plan, HalfSquareReduction<gpu::Compute<T>>());
}

}  // namespace

void AddL2LossGpuKernels(KernelTable& table) {
  table.AddKernels("L2Loss", Kernels<float, double, Half, BFloat16>(
                                 "GPU", [](auto tag) { return &MakeL2Loss<typename decltype(tag)::type>; }));
}

}  // namespace belfry::ops
