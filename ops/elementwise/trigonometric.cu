#include "ops/elementwise/elementwise_gpu_impl.h"
#include "ops/elementwise/functors.h"
#include "ops/gpu/families.h"

namespace belfry::ops {

void AddTrigonometricGpuKernels(OpRegistry& registry) {
  AddFloatGpuMaps<functor::Sin>(registry, "Sin");
  AddFloatGpuMaps<functor::Cos>(registry, "Cos");
  AddFloatGpuMaps<functor::Tan>(registry, "Tan");
  AddFloatGpuMaps<functor::Asin>(registry, "Asin");
  AddFloatGpuMaps<functor::Acos>(registry, "Acos");
  AddFloatGpuMaps<functor::Atan>(registry, "Atan");
  AddFloatGpuZips<functor::Atan2>(registry, "Atan2");
  AddFloatGpuMaps<functor::Sinh>(registry, "Sinh");
  AddFloatGpuMaps<functor::Cosh>(registry, "Cosh");
  AddFloatGpuMaps<functor::Erf>(registry, "Erf");
  AddFloatGpuMaps<functor::Erfc>(registry, "Erfc");
}

}  // namespace belfry::ops
