#include "ops/elementwise/elementwise_gpu_impl.h"
#include "ops/elementwise/step_functors.h"
#include "ops/gpu/families.h"

namespace belfry::ops {
namespace {

template <template <class> class F, class... Ts>
void AddComparison(OpRegistry& registry, absl::string_view op) {
  registry.AddKernels(op, Kernels<Ts...>("GPU", [](auto tag) -> KernelFactory {
                        using T = typename decltype(tag)::type;
                        return [](const KernelSpec& spec) { return GpuZipKernel<T, bool>(spec, F<gpu::Compute<T>>()); };
                      }));
}
template <template <class> class F>
void AddOrdering(OpRegistry& registry, absl::string_view op) {
  AddComparison<F, float, double, Half, BFloat16, int32_t, int64_t, uint8_t>(registry, op);
}
template <template <class> class F>
void AddEquality(OpRegistry& registry, absl::string_view op) {
  AddComparison<F, float, double, Half, BFloat16, int32_t, int64_t, uint8_t, bool>(registry, op);
}
template <template <class> class F>
void AddPredicate(OpRegistry& registry, absl::string_view op) {
  registry.AddKernels(op, Kernels<float, double, Half, BFloat16>("GPU", [](auto tag) -> KernelFactory {
                        using T = typename decltype(tag)::type;
                        return [](const KernelSpec& spec) -> absl::StatusOr<Kernel> {
                          return GpuMapKernel<T, bool>(spec, F<gpu::Compute<T>>());
                        };
                      }));
}

}  // namespace

void AddComparisonGpuKernels(OpRegistry& registry) {
  AddEquality<functor::Equal>(registry, "Equal");
  AddEquality<functor::NotEqual>(registry, "NotEqual");
  AddOrdering<functor::Less>(registry, "Less");
  AddOrdering<functor::LessEqual>(registry, "LessEqual");
  AddOrdering<functor::Greater>(registry, "Greater");
  AddOrdering<functor::GreaterEqual>(registry, "GreaterEqual");
  AddGpuZips<functor::LogicalAnd, bool>(registry, "LogicalAnd");
  AddGpuZips<functor::LogicalOr, bool>(registry, "LogicalOr");
  AddGpuZips<functor::LogicalXor, bool>(registry, "LogicalXor");
  AddGpuMaps<functor::LogicalNot, bool>(registry, "LogicalNot");
  AddPredicate<functor::IsNan>(registry, "IsNan");
  AddPredicate<functor::IsInf>(registry, "IsInf");
  AddPredicate<functor::IsFinite>(registry, "IsFinite");
}

}  // namespace belfry::ops
