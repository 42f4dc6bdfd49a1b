#include "framework/base/status.h"
#include "ops/random/draw_gpu_impl.h"
#include "ops/random/plan_draws.h"
#include "ops/random/random_ops.h"

namespace belfry::ops {
namespace {

template <class T>
absl::StatusOr<Kernel> MakeUniform(const KernelSpec& spec) {
  using C = gpu::Compute<T>;
  ASSIGN_OR_RETURN(const UniformDraw<C> draw, (PlanUniform<T, C>(spec)));
  return GpuDrawKernel<T, std::is_same_v<C, double>>(spec, draw);
}

template <class T>
absl::StatusOr<Kernel> MakeUniformInt(const KernelSpec& spec) {
  ASSIGN_OR_RETURN(const UniformIntDraw<T> draw, PlanUniformInt<T>(spec));
  return GpuDrawKernel<T, true>(spec, draw);
}

template <class T>
absl::StatusOr<Kernel> MakeBernoulli(const KernelSpec& spec) {
  using C = gpu::Compute<T>;
  ASSIGN_OR_RETURN(const BernoulliDraw<C> draw, PlanBernoulli<C>(spec));
  return GpuDrawKernel<T, false>(spec, draw);
}

}  // namespace

void AddUniformGpuKernels(KernelTable& table) {
  AddRandomGpuKernels(table, "RandomUniform", Kernels<float, double, Half, BFloat16>("GPU", [](auto tag) {
                        return &MakeUniform<typename decltype(tag)::type>;
                      }));
  AddRandomGpuKernels(table, "RandomUniformInt", Kernels<int32_t, int64_t>("GPU", [](auto tag) {
                        return &MakeUniformInt<typename decltype(tag)::type>;
                      }));
  AddRandomGpuKernels(table, "Bernoulli", Kernels<float, double, Half, BFloat16>("GPU", [](auto tag) {
                        return &MakeBernoulli<typename decltype(tag)::type>;
                      }));
}

}  // namespace belfry::ops
