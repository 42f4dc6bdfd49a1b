#include "ops/elementwise/elementwise_gpu_impl.h"
#include "ops/elementwise/functors.h"
#include "ops/gpu/families.h"

namespace belfry::ops {
namespace {

template <class T>
absl::StatusOr<Kernel> MakeScale(const KernelSpec& spec) {
  using C = gpu::Compute<T>;
  return GpuMapKernel<T>(spec, functor::Scale<C>{static_cast<C>(spec.attrs.Float("factor"))});
}

}  // namespace

void AddArithmeticGpuKernels(OpRegistry& registry) {
  AddNumericGpuZips<functor::Add>(registry, "Add");
  AddNumericGpuZips<functor::Sub>(registry, "Sub");
  AddNumericGpuZips<functor::Mul>(registry, "Mul");
  AddFloatGpuZips<functor::RealDiv>(registry, "RealDiv");
  AddNumericGpuZips<functor::SquaredDifference>(registry, "SquaredDifference");
  AddNumericGpuMaps<functor::Neg>(registry, "Neg");
  AddNumericGpuMaps<functor::Square>(registry, "Square");
  registry.AddKernels("Scale", Kernels<float, double, Half, BFloat16>(
                                   "GPU", [](auto tag) { return &MakeScale<typename decltype(tag)::type>; }));
}

}  // namespace belfry::ops
