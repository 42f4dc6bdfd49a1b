#include "framework/base/status.h"
#include "ops/random/draw_gpu_impl.h"
#include "ops/random/plan_draws.h"
#include "ops/random/random_ops.h"

namespace belfry::ops {
namespace {

template <class T, bool truncated>
absl::StatusOr<Kernel> MakeNormal(const KernelSpec& spec) {
  using C = gpu::Compute<T>;
  using Normal = NormalDraw<C, truncated>;
  ASSIGN_OR_RETURN(const Normal draw, (PlanNormal<T, C, truncated>(spec)));
  return GpuDrawKernel<T, std::is_same_v<C, double>>(spec, draw);
}

template <bool truncated>
void AddNormal(KernelTable& table, absl::string_view op) {
  AddRandomGpuKernels(table, op, Kernels<float, double, Half, BFloat16>("GPU", [](auto tag) {
                        return &MakeNormal<typename decltype(tag)::type, truncated>;
                      }));
}

}  // namespace

void AddNormalGpuKernels(KernelTable& table) {
  AddNormal<false>(table, "RandomNormal");
  AddNormal<true>(table, "TruncatedNormal");
}

}  // namespace belfry::ops
