#include "ops/elementwise/elementwise_gpu_impl.h"
#include "ops/elementwise/functors.h"
#include "ops/gpu/families.h"

namespace belfry::ops {

void AddExponentialGpuKernels(OpRegistry& registry) {
  AddFloatGpuMaps<functor::Exp>(registry, "Exp");
  AddFloatGpuMaps<functor::Expm1>(registry, "Expm1");
  AddFloatGpuMaps<functor::Log>(registry, "Log");
  AddFloatGpuMaps<functor::Log1p>(registry, "Log1p");
  AddFloatGpuMaps<functor::Tanh>(registry, "Tanh");
  AddFloatGpuZips<functor::TanhGrad>(registry, "TanhGrad");
  AddFloatGpuMaps<functor::Sigmoid>(registry, "Sigmoid");
  AddFloatGpuZips<functor::SigmoidGrad>(registry, "SigmoidGrad");
  AddFloatGpuMaps<functor::Sqrt>(registry, "Sqrt");
  AddFloatGpuMaps<functor::Rsqrt>(registry, "Rsqrt");
  AddFloatGpuMaps<functor::Reciprocal>(registry, "Reciprocal");
  AddFloatGpuZips<functor::Pow>(registry, "Pow");
}

}  // namespace belfry::ops
