#include <cmath>

#include "absl/strings/str_cat.h"
#include "ops/random.h"
#include "ops/random/draw_impl.h"
#include "ops/random/random_ops.h"

namespace belfry::ops {
namespace {

using FloatChunk = Eigen::Array<float, kDrawChunk, 1>;

template <size_t terms>
FloatChunk Polynomial(const float (&coefficients)[terms], const FloatChunk& x) {
  FloatChunk sum = FloatChunk::Constant(coefficients[0]);
  for (size_t i = 1; i < terms; ++i) sum = sum * x + coefficients[i];
  return sum;
}

// sqrt(2) * erfinv(x) after M. Giles, "Approximating the erfinv function" (GPU Computing Gems, 2011), single precision.
// `w` is -log((1 - x) * (1 + x)), which the caller knows better than x would give it near +-1.
FloatChunk CentralQuantile(const FloatChunk& x, const FloatChunk& w) {
  static constexpr float kCentral[] = {2.81022636e-08f,  3.43273939e-07f, -3.5233877e-06f,
                                       -4.39150654e-06f, 0.00021858087f,  -0.00125372503f,
                                       -0.00417768164f,  0.246640727f,    1.50140941f};
  return 1.41421356f * x * Polynomial(kCentral, w - 2.5f);
}

FloatChunk Quantile(const FloatChunk& x, const FloatChunk& w) {
  static constexpr float kTail[] = {-0.000200214257f, 0.000100950558f, 0.00134934322f, -0.00367342844f, 0.00573950773f,
                                    -0.0076224613f,   0.00943887047f,  1.00167406f,    2.83297682f};
  const FloatChunk central = CentralQuantile(x, w);
  if ((w < 5.0f).all()) return central;
  return (w < 5.0f).select(central, 1.41421356f * x * Polynomial(kTail, w.sqrt() - 3.0f));
}

constexpr double kWithinTwo = 0.95449973610364158;  // erf(sqrt(2)): the probability of |z| < 2

// The quantiles of the probabilities that the words stand for, (word + 1/2) / 2^32, of all or of those with |z| < 2.
template <bool truncated>
FloatChunk StandardNormal(const uint32_t* words) {
  // Centred: x = 2 p - 1 is odd in the words, so the distribution is symmetric to the last bit.
  const Eigen::Map<const Eigen::Array<uint32_t, kDrawChunk, 1>> bits(words);
  const FloatChunk centred = (bits + 0x80000000u).template cast<int32_t>().template cast<float>();
  if constexpr (truncated) {
    const FloatChunk x = (centred + 0.5f) * (0x1p-31f * static_cast<float>(kWithinTwo));
    return CentralQuantile(x, -((1.0f - x) * (1.0f + x)).log());
  } else {
    const FloatChunk x = (centred + 0.5f) * 0x1p-31f;
    const FloatChunk tail = (bits.min(~0u - bits).template cast<int32_t>().template cast<float>() + 0.5f) * 0x1p-32f;
    return Quantile(x, -(4.0f * tail * (1.0f - tail)).log());
  }
}

// One step of Halley's method on the distribution function, which cubes the relative error of `z`.
template <bool truncated>
double RefinedNormal(float approximate, uint32_t high, uint32_t low) {
  const bool negative = high < 0x80000000u;
  // The probability beyond |z|, from the side on which nothing cancels.
  const double side = (static_cast<double>(negative ? high : ~high) * 0x1p32 + (negative ? low : ~low) + 0.5) * 0x1p-64;
  const double tail = truncated ? 0.5 * (1 - kWithinTwo) + kWithinTwo * side : side;
  const double z = std::abs(static_cast<double>(approximate));
  const double error = (tail - 0.5 * std::erfc(z * M_SQRT1_2)) * std::sqrt(2 * M_PI) * std::exp(0.5 * z * z);
  const double refined = z - error / (1 + 0.5 * z * error);
  return negative ? -refined : refined;
}

template <class T, bool truncated>
absl::StatusOr<Kernel> MakeNormal(const KernelSpec& spec) {
  const double mean = spec.attrs.Float("mean"), stddev = spec.attrs.Float("stddev");
  if (!(stddev >= 0)) {
    return absl::InvalidArgumentError(absl::StrCat(spec.name, ": stddev must not be negative, and is ", stddev));
  }
  constexpr bool kWide = std::is_same_v<T, double>;
  return Kernel{[plan = DrawPlan(spec, spec.outputs[0].shape, 0), mean, stddev](const KernelContext& context) {
    T* out = context.output<T>(0);
    ForEachDraw<kWide>(plan, plan.Origin(context), kWide ? 300 : 60,
                       [=](int64_t first, int count, const uint32_t* high, const uint32_t* low) {
                         uint32_t words[kDrawChunk];
                         std::copy_n(high, count, words);
                         std::fill(words + count, words + kDrawChunk, 0x80000000u);
                         const FloatChunk z = StandardNormal<truncated>(words);
                         if constexpr (kWide) {
                           for (int i = 0; i < count; ++i) {
                             out[first + i] = mean + stddev * RefinedNormal<truncated>(z[i], high[i], low[i]);
                           }
                         } else {
                           const auto offset = static_cast<float>(mean), scale = static_cast<float>(stddev);
                           for (int i = 0; i < count; ++i) out[first + i] = static_cast<T>(offset + scale * z[i]);
                         }
                       });
    return absl::OkStatus();
  }};
}

template <bool truncated>
OpDef NormalOpDef(absl::string_view name) {
  return RandomOpDef(name, kFloatTypes, {{"mean", 0.0}, {"stddev", 1.0}},
                     Kernels<float, double, Half, BFloat16>(
                         "CPU", [](auto tag) { return &MakeNormal<typename decltype(tag)::type, truncated>; }));
}

}  // namespace

Output RandomNormal(OpScope scope, const Shape& shape, double mean, double stddev, const RandomOptions& options) {
  return AddRandom(scope, "RandomNormal", shape, options, {{"mean", mean}, {"stddev", stddev}});
}

Output TruncatedNormal(OpScope scope, const Shape& shape, double mean, double stddev, const RandomOptions& options) {
  return AddRandom(scope, "TruncatedNormal", shape, options, {{"mean", mean}, {"stddev", stddev}});
}

void RegisterNormalOps(OpRegistry& registry) {
  registry.Add(NormalOpDef<false>("RandomNormal"));
  registry.Add(NormalOpDef<true>("TruncatedNormal"));
}

}  // namespace belfry::ops
