#include "ops/elementwise/elementwise_gpu_impl.h"
#include "ops/elementwise/elementwise_ops.h"
#include "ops/elementwise/functors.h"

namespace belfry::ops {

void AddExponentialGpuKernels(KernelTable& table) {
  AddFloatGpuMaps<functor::Exp>(table, "Exp");
  AddFloatGpuMaps<functor::Expm1>(table, "Expm1");
  AddFloatGpuMaps<functor::Log>(table, "Log");
  AddFloatGpuMaps<functor::Log1p>(table, "Log1p");
  AddFloatGpuMaps<functor::Tanh>(table, "Tanh");
  AddFloatGpuZips<functor::TanhGrad>(table, "TanhGrad");
  AddFloatGpuMaps<functor::Sigmoid>(table, "Sigmoid");
  AddFloatGpuZips<functor::SigmoidGrad>(table, "SigmoidGrad");
  AddFloatGpuMaps<functor::Sqrt>(table, "Sqrt");
  AddFloatGpuMaps<functor::Rsqrt>(table, "Rsqrt");
  AddFloatGpuMaps<functor::Reciprocal>(table, "Reciprocal");
  AddFloatGpuZips<functor::Pow>(table, "Pow");
}

}  // namespace belfry::ops
