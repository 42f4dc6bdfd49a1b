#include "ops/reduction/reduce_gpu_impl.h"
#include "ops/reduction/reduction_ops.h"
#include "ops/reduction/reductions.h"
#include "ops/reduction/visit_gpu_impl.h"

namespace belfry::ops {
namespace {

template <class T>
absl::StatusOr<Kernel> MakeSum(const KernelSpec& spec) {
  ASSIGN_OR_RETURN(const GpuReducePlan plan, PlanGpuReduce(spec));
  return GpuReduceKernel<T>(plan, SumReduction<gpu::Compute<T>>());
}

template <class T>
absl::StatusOr<Kernel> MakeMean(const KernelSpec& spec) {
  ASSIGN_OR_RETURN(const GpuReducePlan plan, PlanGpuReduce(spec));
  return GpuReduceKernel<T>(plan, SumReduction<gpu::Compute<T>>{1.0 / static_cast<double>(plan.reduced.count)});
}

template <class T>
absl::StatusOr<Kernel> MakeSumLike(const KernelSpec& spec) {
  const Shape& x = spec.inputs[0].shape;
  const Shape& like = spec.outputs[0].shape;
  if (x.elements() == like.elements()) {
    return Kernel{[bytes = spec.outputs[0].bytes()](const KernelContext& at) {
      return gpu::CopyBytes(*at.stream, at.outputs[0], at.inputs[0], bytes);
    }};
  }
  ASSIGN_OR_RETURN(const GpuReducePlan plan, PlanGpuReduce(x, BroadcastAxes(x, like)));
  return GpuReduceKernel<T>(plan, SumReduction<gpu::Compute<T>>());
}

template <class T>
struct Spread {
  const gpu::Stored<T>* dy;
  gpu::Stored<T>* dx;
  gpu::Compute<T> factor;
  BELFRY_GPU void operator()(int64_t i, int64_t output) const {
    dx[i] = gpu::Narrow<T>(factor * gpu::Widen(dy[output]));
  }
};

template <class T, bool mean>
absl::StatusOr<Kernel> MakeSumGrad(const KernelSpec& spec) {
  const Shape& x = spec.outputs[0].shape;
  const int64_t n = x.elements();
  if (n == 0) return NothingToDo();
  ASSIGN_OR_RETURN(const GpuBroadcast plan, PlanGpuVisit(spec, x));
  const double count = static_cast<double>(n) / static_cast<double>(spec.inputs[0].shape.elements());
  const auto factor = static_cast<gpu::Compute<T>>(mean ? 1 / count : 1.0);
  return Kernel{[n, plan, factor](const KernelContext& at) {
    return GpuVisit(*at.stream, n, plan, Spread<T>{at.input<gpu::Stored<T>>(0), at.output<gpu::Stored<T>>(0), factor});
  }};
}

}  // namespace

void AddSumGpuKernels(KernelTable& table) {
  table.AddKernels("Sum", Kernels<float, double, Half, BFloat16, int32_t, int64_t, uint8_t>(
                              "GPU", [](auto tag) { return &MakeSum<typename decltype(tag)::type>; }));
  table.AddKernels("SumLike", Kernels<float, double, Half, BFloat16, int32_t, int64_t, uint8_t>(
                                  "GPU", [](auto tag) { return &MakeSumLike<typename decltype(tag)::type>; }));
  table.AddKernels("Mean", Kernels<float, double, Half, BFloat16>(
                               "GPU", [](auto tag) { return &MakeMean<typename decltype(tag)::type>; }));
  table.AddKernels("SumGrad", Kernels<float, double, Half, BFloat16>(
                                  "GPU", [](auto tag) { return &MakeSumGrad<typename decltype(tag)::type, false>; }));
  table.AddKernels("MeanGrad", Kernels<float, double, Half, BFloat16>(
                                   "GPU", [](auto tag) { return &MakeSumGrad<typename decltype(tag)::type, true>; }));
}

}  // namespace belfry::ops
