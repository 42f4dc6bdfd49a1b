#include "framework/data/mixup.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "framework/base/philox.h"
#include "framework/data/sampler.h"

namespace belfry::data {
namespace {

// A number in (0, 1).
double Uniform(PhiloxStream& random) {
  const uint32_t high = random.Next();
  return UniformDouble(high, random.Next()) + 0x1p-54;
}

double Normal(PhiloxStream& random) {
  constexpr double kTwoPi = 6.283185307179586;
  const double radius = std::sqrt(-2 * std::log(Uniform(random)));
  return radius * std::cos(kTwoPi * Uniform(random));
}

// The logarithm of a number from Gamma(alpha, 1), which may be too small for a double: Marsaglia and Tsang, "A simple
// method for generating gamma variables" (2000), with their Gamma(alpha + 1) U^(1 / alpha) below 1.
double LogGamma(PhiloxStream& random, double alpha) {
  if (alpha < 1) {
    const double larger = LogGamma(random, alpha + 1);
    return larger + std::log(Uniform(random)) / alpha;
  }
  const double d = alpha - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  while (true) {
    const double x = Normal(random), v = std::pow(1 + c * x, 3);
    if (v > 0 && std::log(Uniform(random)) < x * x / 2 + d - d * v + d * std::log(v)) return std::log(d * v);
  }
}

}  // namespace

std::vector<Field> MixtureFields(absl::Span<const Field> fields) {
  std::vector<Field> added;
  for (const Field& field : fields) {
    if (field.dtype == DType::kFloat32) continue;
    added.push_back(field);
    added.back().name = absl::StrCat(field.name, kPartnerSuffix);
  }
  added.push_back({.name = kMixtureWeight, .dtype = DType::kFloat32, .shape = {}});
  return added;
}

double DrawMixture(uint64_t seed, double alpha, int64_t step, absl::Span<int64_t> partners) {
  const uint64_t key = RandomKey(seed, "mixup");
  ShuffleEpoch(key, step, partners);
  PhiloxStream random(key, static_cast<uint64_t>(step));
  const double first = LogGamma(random, alpha), second = LogGamma(random, alpha);
  return 1 / (1 + std::exp(second - first));
}

}  // namespace belfry::data
