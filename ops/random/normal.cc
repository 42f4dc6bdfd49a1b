#include <type_traits>

#include "framework/base/status.h"
#include "ops/random.h"
#include "ops/random/draw_impl.h"
#include "ops/random/plan_draws.h"
#include "ops/random/random_ops.h"

namespace belfry::ops {
namespace {

using FloatChunk = Eigen::Array<float, kDrawChunk, 1>;

FloatChunk Quantile(const FloatChunk& x, const FloatChunk& w) {
  const FloatChunk central = CentralQuantile(x, w);
  if ((w < 5.0f).all()) return central;
  return (w < 5.0f).select(central, TailQuantile<FloatChunk>(x, w.sqrt()));
}

// StandardNormal of ops/random/distributions.h, for all words of a chunk at once.
template <bool truncated>
FloatChunk StandardNormals(const uint32_t* words) {
  const Eigen::Map<const Eigen::Array<uint32_t, kDrawChunk, 1>> bits(words);
  const FloatChunk centred = (bits + 0x80000000u).template cast<int32_t>().template cast<float>();
  if constexpr (truncated) {
    const FloatChunk x = (centred + 0.5f) * (0x1p-31f * static_cast<float>(kWithinTwo));
    return CentralQuantile<FloatChunk>(x, -((1.0f - x) * (1.0f + x)).log());
  } else {
    const FloatChunk x = (centred + 0.5f) * 0x1p-31f;
    const FloatChunk tail = (bits.min(~0u - bits).template cast<int32_t>().template cast<float>() + 0.5f) * 0x1p-32f;
    return Quantile(x, -(4.0f * tail * (1.0f - tail)).log());
  }
}

template <class T, bool truncated>
absl::StatusOr<Kernel> MakeNormal(const KernelSpec& spec) {
  constexpr bool kWide = std::is_same_v<T, double>;
  using C = std::conditional_t<kWide, double, float>;
  using Normal = NormalDraw<C, truncated>;
  ASSIGN_OR_RETURN(const Normal draw, (PlanNormal<T, C, truncated>(spec)));
  return Kernel{[plan = DrawPlan(spec), draw](const KernelContext& context) {
                  T* out = context.output<T>(0);
                  ForEachDraw<kWide>(plan, plan.Origin(context), kWide ? 300 : 60,
                                     [=](int64_t first, int count, const uint32_t* high, const uint32_t* low) {
                                       uint32_t words[kDrawChunk];
                                       std::copy_n(high, count, words);
                                       std::fill(words + count, words + kDrawChunk, 0x80000000u);
                                       const FloatChunk z = StandardNormals<truncated>(words);
                                       for (int i = 0; i < count; ++i) {
                                         C normal = z[i];
                                         if constexpr (kWide) normal = RefinedNormal<truncated>(z[i], high[i], low[i]);
                                         out[first + i] = static_cast<T>(draw.mean + draw.stddev * normal);
                                       }
                                     });
                  return absl::OkStatus();
                },
                0, DrawPlan(spec).uses_run()};
}

template <bool truncated>
OpDef NormalOpDef(absl::string_view name) {
  return RandomOpDef(name, kFloatTypes, {{"mean", 0.0}, {"stddev", 1.0}},
                     Kernels<float, double, Half, BFloat16>(
                         "CPU", [](auto tag) { return &MakeNormal<typename decltype(tag)::type, truncated>; }));
}

}  // namespace

Output RandomNormal(OpScope scope, const Extents& extents, double mean, double stddev, const RandomOptions& options) {
  return AddRandom(scope, "RandomNormal", extents, options, {{"mean", mean}, {"stddev", stddev}});
}

Output TruncatedNormal(OpScope scope, const Extents& extents, double mean, double stddev,
                       const RandomOptions& options) {
  return AddRandom(scope, "TruncatedNormal", extents, options, {{"mean", mean}, {"stddev", stddev}});
}

void RegisterNormalOps(OpRegistry& registry) {
  AddRandomOps(registry, NormalOpDef<false>("RandomNormal"), OpRole::kRandomNormal);
  AddRandomOps(registry, NormalOpDef<true>("TruncatedNormal"), OpRole::kTruncatedNormal);
}

}  // namespace belfry::ops
