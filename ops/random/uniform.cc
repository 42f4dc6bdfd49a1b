#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "ops/random.h"
#include "ops/random/draw_impl.h"
#include "ops/random/random_ops.h"

namespace belfry::ops {
namespace {

absl::Status CheckRange(const KernelSpec& spec, bool ordered, double low, double high) {
  if (ordered) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(spec.name, ": the range [", low, ", ", high, ") is not one"));
}

// T: the tensor's dtype; C: what is computed with.
template <class T, class C>
absl::StatusOr<Kernel> MakeUniform(const KernelSpec& spec) {
  const double low = spec.attrs.Float("low"), high = spec.attrs.Float("high");
  RETURN_IF_ERROR(CheckRange(spec, low <= high, low, high));
  const auto base = static_cast<C>(low), range = static_cast<C>(high - low);
  // base + range * u rounds up to `high` for the last few u.
  const C last = std::max(base, std::nextafter(static_cast<C>(high), -std::numeric_limits<C>::infinity()));
  constexpr bool kWide = std::is_same_v<C, double>;
  return Kernel{[plan = DrawPlan(spec, spec.outputs[0].shape, 0), base, range, last](const KernelContext& context) {
    T* out = context.output<T>(0);
    ForEachDraw<kWide>(plan, plan.Origin(context), 25,
                       [=](int64_t first, int count, const uint32_t* high, const uint32_t* low) {
                         for (int i = 0; i < count; ++i) {
                           C u;
                           if constexpr (kWide) {
                             u = UniformDouble(high[i], low[i]);
                           } else {
                             u = static_cast<float>(static_cast<int32_t>(high[i] >> 8)) * 0x1p-24f;
                           }
                           out[first + i] = static_cast<T>(std::min(base + range * u, last));
                         }
                       });
    return absl::OkStatus();
  }};
}

template <class T>
absl::StatusOr<Kernel> MakeUniformInt(const KernelSpec& spec) {
  const int64_t low = spec.attrs.Int("low"), high = spec.attrs.Int("high");
  RETURN_IF_ERROR(CheckRange(spec, low < high, static_cast<double>(low), static_cast<double>(high)));
  if (low < std::numeric_limits<T>::min() || high - 1 > std::numeric_limits<T>::max()) {
    return absl::InvalidArgumentError(
        absl::StrCat(spec.name, ": ", DTypeName(kDTypeOf<T>), " does not hold [", low, ", ", high, ")"));
  }
  const uint64_t range = static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
  return Kernel{[plan = DrawPlan(spec, spec.outputs[0].shape, 0), low, range](const KernelContext& context) {
    T* out = context.output<T>(0);
    ForEachDraw<true>(plan, plan.Origin(context), 50,
                      [=](int64_t first, int count, const uint32_t* high_words, const uint32_t* low_words) {
                        for (int i = 0; i < count; ++i) {
                          const uint64_t bits = (uint64_t{high_words[i]} << 32) | low_words[i];
                          // The high half of bits * range, in 64-bit arithmetic: floor(u * range) for u in [0, 1).
                          const uint64_t low_product = (bits & 0xffffffff) * (range & 0xffffffff);
                          const uint64_t mid = (bits >> 32) * (range & 0xffffffff) + (low_product >> 32);
                          const uint64_t mid2 = (bits & 0xffffffff) * (range >> 32) + (mid & 0xffffffff);
                          const uint64_t drawn = (bits >> 32) * (range >> 32) + (mid >> 32) + (mid2 >> 32);
                          out[first + i] = static_cast<T>(static_cast<int64_t>(static_cast<uint64_t>(low) + drawn));
                        }
                      });
    return absl::OkStatus();
  }};
}

template <class T>
absl::StatusOr<Kernel> MakeBernoulli(const KernelSpec& spec) {
  const double probability = spec.attrs.Float("probability");
  if (!(probability >= 0 && probability <= 1)) {
    return absl::InvalidArgumentError(absl::StrCat(spec.name, ": ", probability, " is no probability"));
  }
  // Words below the threshold give 1: all of them for 1, none for 0.
  const auto threshold = static_cast<uint64_t>(std::llround(std::ldexp(probability, 32)));
  return Kernel{[plan = DrawPlan(spec, spec.outputs[0].shape, 0), threshold](const KernelContext& context) {
    T* out = context.output<T>(0);
    ForEachDraw<false>(plan, plan.Origin(context), 25,
                       [=](int64_t first, int count, const uint32_t* words, const uint32_t*) {
                         for (int i = 0; i < count; ++i) {
                           out[first + i] = static_cast<T>(words[i] < threshold ? 1.0f : 0.0f);
                         }
                       });
    return absl::OkStatus();
  }};
}

template <class T>
using Computed = std::conditional_t<std::is_same_v<T, double>, double, float>;

}  // namespace

Output RandomUniform(OpScope scope, const Shape& shape, double low, double high, const RandomOptions& options) {
  return AddRandom(scope, "RandomUniform", shape, options, {{"low", low}, {"high", high}});
}

Output RandomUniformInt(OpScope scope, const Shape& shape, int64_t low, int64_t high, const RandomOptions& options) {
  return AddRandom(scope, "RandomUniformInt", shape, options, {{"low", low}, {"high", high}});
}

Output Bernoulli(OpScope scope, const Shape& shape, double probability, const RandomOptions& options) {
  return AddRandom(scope, "Bernoulli", shape, options, {{"probability", probability}});
}

void RegisterUniformOps(OpRegistry& registry) {
  registry.Add(RandomOpDef("RandomUniform", kFloatTypes, {{"low", 0.0}, {"high", 1.0}},
                           Kernels<float, double, Half, BFloat16>("CPU", [](auto tag) {
                             using T = typename decltype(tag)::type;
                             return &MakeUniform<T, Computed<T>>;
                           })));
  registry.Add(RandomOpDef(
      "RandomUniformInt", kIndexTypes, {{"low", int64_t{0}, true}, {"high", int64_t{0}, true}},
      Kernels<int32_t, int64_t>("CPU", [](auto tag) { return &MakeUniformInt<typename decltype(tag)::type>; })));
  registry.Add(RandomOpDef("Bernoulli", kFloatTypes, {{"probability", 0.5, true}},
                           Kernels<float, double, Half, BFloat16>(
                               "CPU", [](auto tag) { return &MakeBernoulli<typename decltype(tag)::type>; })));
}

}  // namespace belfry::ops
