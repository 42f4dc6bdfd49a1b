// Distributions constructed from the attributes of random ops. InvalidArgument, with the node's name, if the attributes
// are not valid.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "framework/graph/op_def.h"
#include "ops/random/distributions.h"

namespace belfry::ops {

inline absl::Status CheckRange(const KernelSpec& spec, bool ordered, double low, double high) {
  if (ordered) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(spec.name, ": [", low, ", ", high, ") is not a valid range"));
}

// C is the type of the computation, float or double.
template <class C>
absl::StatusOr<UniformDraw<C>> PlanUniform(const KernelSpec& spec) {
  const double low = spec.attrs.Float("low"), high = spec.attrs.Float("high");
  if (absl::Status range = CheckRange(spec, low <= high, low, high); !range.ok()) return range;
  const auto base = static_cast<C>(low);
  const C last = std::max(base, std::nextafter(static_cast<C>(high), -std::numeric_limits<C>::infinity()));
  return UniformDraw<C>{base, static_cast<C>(high - low), last};
}

template <class T>
absl::StatusOr<UniformIntDraw<T>> PlanUniformInt(const KernelSpec& spec) {
  const int64_t low = spec.attrs.Int("low"), high = spec.attrs.Int("high");
  if (absl::Status range = CheckRange(spec, low < high, static_cast<double>(low), static_cast<double>(high));
      !range.ok()) {
    return range;
  }
  if (low < std::numeric_limits<T>::min() || high - 1 > std::numeric_limits<T>::max()) {
    return absl::InvalidArgumentError(
        absl::StrCat(spec.name, ": ", DTypeName(kDTypeOf<T>), " cannot represent the range [", low, ", ", high, ")"));
  }
  const auto from = static_cast<uint64_t>(low);
  return UniformIntDraw<T>{from, static_cast<uint64_t>(high) - from};
}

template <class C>
absl::StatusOr<BernoulliDraw<C>> PlanBernoulli(const KernelSpec& spec) {
  const double probability = spec.attrs.Float("probability");
  if (!(probability >= 0 && probability <= 1)) {
    return absl::InvalidArgumentError(absl::StrCat(spec.name, ": ", probability, " is not a probability"));
  }
  return BernoulliDraw<C>{static_cast<uint64_t>(std::llround(std::ldexp(probability, 32)))};
}

template <class C, bool truncated>
absl::StatusOr<NormalDraw<C, truncated>> PlanNormal(const KernelSpec& spec) {
  const double mean = spec.attrs.Float("mean"), stddev = spec.attrs.Float("stddev");
  if (!(stddev >= 0)) {
    return absl::InvalidArgumentError(absl::StrCat(spec.name, ": stddev must not be negative, but is ", stddev));
  }
  return NormalDraw<C, truncated>{static_cast<C>(mean), static_cast<C>(stddev)};
}

}  // namespace belfry::ops
