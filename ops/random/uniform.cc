#include <type_traits>

#include "framework/base/status.h"
#include "ops/random.h"
#include "ops/random/draw_impl.h"
#include "ops/random/plan_draws.h"
#include "ops/random/random_ops.h"

namespace belfry::ops {
namespace {

// Computes output 0 from the words of each element.
template <class T, bool wide, class Draw>
Kernel DrawKernel(const KernelSpec& spec, double cost, Draw draw) {
  return Kernel{[plan = DrawPlan(spec), cost, draw](const KernelContext& context) {
                  T* out = context.output<T>(0);
                  ForEachDraw<wide>(plan, plan.Origin(context), cost,
                                    [=](int64_t first, int count, const uint32_t* high, const uint32_t* low) {
                                      for (int i = 0; i < count; ++i) {
                                        out[first + i] = static_cast<T>(draw(high[i], wide ? low[i] : 0));
                                      }
                                    });
                  return absl::OkStatus();
                },
                0, DrawPlan(spec).uses_run()};
}

template <class T>
absl::StatusOr<Kernel> MakeUniform(const KernelSpec& spec) {
  using C = std::conditional_t<std::is_same_v<T, double>, double, float>;
  ASSIGN_OR_RETURN(const UniformDraw<C> draw, (PlanUniform<T, C>(spec)));
  return DrawKernel<T, std::is_same_v<C, double>>(spec, 25, draw);
}

template <class T>
absl::StatusOr<Kernel> MakeUniformInt(const KernelSpec& spec) {
  ASSIGN_OR_RETURN(const UniformIntDraw<T> draw, PlanUniformInt<T>(spec));
  return DrawKernel<T, true>(spec, 50, draw);
}

template <class T>
absl::StatusOr<Kernel> MakeBernoulli(const KernelSpec& spec) {
  ASSIGN_OR_RETURN(const BernoulliDraw<float> draw, PlanBernoulli<float>(spec));
  return DrawKernel<T, false>(spec, 25, draw);
}

}  // namespace

Output RandomUniform(OpScope scope, const Extents& extents, double low, double high, const RandomOptions& options) {
  return AddRandom(scope, "RandomUniform", extents, options, {{"low", low}, {"high", high}});
}

Output RandomUniformInt(OpScope scope, const Extents& extents, int64_t low, int64_t high,
                        const RandomOptions& options) {
  return AddRandom(scope, "RandomUniformInt", extents, options, {{"low", low}, {"high", high}});
}

Output Bernoulli(OpScope scope, const Extents& extents, double probability, const RandomOptions& options) {
  return AddRandom(scope, "Bernoulli", extents, options, {{"probability", probability}});
}

void RegisterUniformOps(OpRegistry& registry) {
  OpDef uniform = RandomOpDef("RandomUniform", kFloatTypes, {{"low", 0.0}, {"high", 1.0}},
                              Kernels<float, double, Half, BFloat16>(
                                  "CPU", [](auto tag) { return &MakeUniform<typename decltype(tag)::type>; }));
  AddRandomOps(registry, std::move(uniform), OpRole::kRandomUniform);
  AddRandomOps(registry,
               RandomOpDef("RandomUniformInt", kIndexTypes, {{"low", int64_t{0}, true}, {"high", int64_t{0}, true}},
                           Kernels<int32_t, int64_t>(
                               "CPU", [](auto tag) { return &MakeUniformInt<typename decltype(tag)::type>; })));
  AddRandomOps(registry, RandomOpDef("Bernoulli", kFloatTypes, {{"probability", 0.5, true}},
                                     Kernels<float, double, Half, BFloat16>("CPU", [](auto tag) {
                                       return &MakeBernoulli<typename decltype(tag)::type>;
                                     })));
}

}  // namespace belfry::ops
