#include "ops/elementwise/elementwise_gpu_impl.h"
#include "ops/elementwise/elementwise_ops.h"
#include "ops/elementwise/step_functors.h"

namespace belfry::ops {
namespace {

template <template <class> class F, class... Ts>
void AddComparison(KernelTable& table, absl::string_view op) {
  table.AddKernels(op, Kernels<Ts...>("GPU", [](auto tag) -> KernelFactory {
                     using T = typename decltype(tag)::type;
                     return [](const KernelSpec& spec) { return GpuZipKernel<T, bool>(spec, F<gpu::Compute<T>>()); };
                   }));
}
template <template <class> class F>
void AddOrdering(KernelTable& table, absl::string_view op) {
  AddComparison<F, float, double, Half, BFloat16, int32_t, int64_t, uint8_t>(table, op);
}
template <template <class> class F>
void AddEquality(KernelTable& table, absl::string_view op) {
  AddComparison<F, float, double, Half, BFloat16, int32_t, int64_t, uint8_t, bool>(table, op);
}
template <template <class> class F>
void AddPredicate(KernelTable& table, absl::string_view op) {
  table.AddKernels(op, Kernels<float, double, Half, BFloat16>("GPU", [](auto tag) -> KernelFactory {
                     using T = typename decltype(tag)::type;
                     return [](const KernelSpec& spec) -> absl::StatusOr<Kernel> {
                       return GpuMapKernel<T, bool>(spec, F<gpu::Compute<T>>());
                     };
                   }));
}

}  // namespace

void AddComparisonGpuKernels(KernelTable& table) {
  AddEquality<functor::Equal>(table, "Equal");
  AddEquality<functor::NotEqual>(table, "NotEqual");
  AddOrdering<functor::Less>(table, "Less");
  AddOrdering<functor::LessEqual>(table, "LessEqual");
  AddOrdering<functor::Greater>(table, "Greater");
  AddOrdering<functor::GreaterEqual>(table, "GreaterEqual");
  AddGpuZips<functor::LogicalAnd, bool>(table, "LogicalAnd");
  AddGpuZips<functor::LogicalOr, bool>(table, "LogicalOr");
  AddGpuZips<functor::LogicalXor, bool>(table, "LogicalXor");
  AddGpuMaps<functor::LogicalNot, bool>(table, "LogicalNot");
  AddPredicate<functor::IsNan>(table, "IsNan");
  AddPredicate<functor::IsInf>(table, "IsInf");
  AddPredicate<functor::IsFinite>(table, "IsFinite");
}

}  // namespace belfry::ops
