#include "ops/elementwise/elementwise_gpu_impl.h"
#include "ops/elementwise/elementwise_ops.h"
#include "ops/elementwise/functors.h"

namespace belfry::ops {
namespace {

template <class T>
absl::StatusOr<Kernel> MakeScale(const KernelSpec& spec) {
  using C = gpu::Compute<T>;
  return GpuMapKernel<T>(spec, functor::Scale<C>{static_cast<C>(spec.attrs.Float("factor"))});
}

}  // namespace

void AddArithmeticGpuKernels(KernelTable& table) {
  AddNumericGpuZips<functor::Add>(table, "Add");
  AddNumericGpuZips<functor::Sub>(table, "Sub");
  AddNumericGpuZips<functor::Mul>(table, "Mul");
  AddFloatGpuZips<functor::RealDiv>(table, "RealDiv");
  AddNumericGpuZips<functor::SquaredDifference>(table, "SquaredDifference");
  AddNumericGpuMaps<functor::Neg>(table, "Neg");
  AddNumericGpuMaps<functor::Square>(table, "Square");
  table.AddKernels("Scale", Kernels<float, double, Half, BFloat16>(
                                "GPU", [](auto tag) { return &MakeScale<typename decltype(tag)::type>; }));
}

}  // namespace belfry::ops
