#include "ops/activation/activation_ops.h"
#include "ops/activation/functors.h"
#include "ops/elementwise/elementwise_gpu_impl.h"

namespace belfry::ops {
namespace {

template <class T>
absl::StatusOr<Kernel> MakeGeluOf(const KernelSpec& spec) {
  using C = gpu::Compute<T>;
  if (spec.attrs.Bool("approximate")) return GpuMapKernel<T>(spec, functor::GeluTanh<C>());
  return GpuMapKernel<T>(spec, functor::Gelu<C>());
}
template <class T>
absl::StatusOr<Kernel> MakeGeluGradOf(const KernelSpec& spec) {
  using C = gpu::Compute<T>;
  if (spec.attrs.Bool("approximate")) return GpuZipKernel<T>(spec, functor::GeluTanhGrad<C>());
  return GpuZipKernel<T>(spec, functor::GeluGrad<C>());
}

}  // namespace

absl::StatusOr<Kernel> MakeGpuGelu(const KernelSpec& spec) {
  switch (spec.inputs[0].dtype) {
    case DType::kFloat64: return MakeGeluOf<double>(spec);
    case DType::kFloat16: return MakeGeluOf<Half>(spec);
    case DType::kBFloat16: return MakeGeluOf<BFloat16>(spec);
    default: return MakeGeluOf<float>(spec);
  }
}
absl::StatusOr<Kernel> MakeGpuGeluGrad(const KernelSpec& spec) {
  switch (spec.inputs[0].dtype) {
    case DType::kFloat64: return MakeGeluGradOf<double>(spec);
    case DType::kFloat16: return MakeGeluGradOf<Half>(spec);
    case DType::kBFloat16: return MakeGeluGradOf<BFloat16>(spec);
    default: return MakeGeluGradOf<float>(spec);
  }
}

void AddSmoothActivationGpuKernels(KernelTable& table) {
  table.AddKernels("Gelu", Kernels<float, double, Half, BFloat16>("GPU", [](auto) { return &MakeGpuGelu; }));
  table.AddKernels("GeluGrad", Kernels<float, double, Half, BFloat16>("GPU", [](auto) { return &MakeGpuGeluGrad; }));
  AddFloatGpuMaps<functor::Silu>(table, "Silu");
  AddFloatGpuZips<functor::SiluGrad>(table, "SiluGrad");
  AddFloatGpuMaps<functor::Softplus>(table, "Softplus");
  AddFloatGpuZips<functor::SoftplusGrad>(table, "SoftplusGrad");
}

}  // namespace belfry::ops
