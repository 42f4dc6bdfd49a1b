#include "ops/elementwise/elementwise_gpu_impl.h"
#include "ops/elementwise/elementwise_ops.h"
#include "ops/elementwise/functors.h"

namespace belfry::ops {

void AddTrigonometricGpuKernels(KernelTable& table) {
  AddFloatGpuMaps<functor::Sin>(table, "Sin");
  AddFloatGpuMaps<functor::Cos>(table, "Cos");
  AddFloatGpuMaps<functor::Tan>(table, "Tan");
  AddFloatGpuMaps<functor::Asin>(table, "Asin");
  AddFloatGpuMaps<functor::Acos>(table, "Acos");
  AddFloatGpuMaps<functor::Atan>(table, "Atan");
  AddFloatGpuZips<functor::Atan2>(table, "Atan2");
  AddFloatGpuMaps<functor::Sinh>(table, "Sinh");
  AddFloatGpuMaps<functor::Cosh>(table, "Cosh");
  AddFloatGpuMaps<functor::Erf>(table, "Erf");
  AddFloatGpuMaps<functor::Erfc>(table, "Erfc");
}

}  // namespace belfry::ops
