// Distributions constructed from the attributes of random ops. InvalidArgument, with the node's name, if the attributes
// are not valid.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "framework/graph/op_def.h"
#include "ops/random/distributions.h"

namespace belfry::ops {

inline absl::Status CheckRange(const KernelSpec& spec, bool ordered, double low, double high) {
  if (ordered) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(spec.name, ": [", low, ", ", high, ") is not a valid range"));
}

// The numbers of a float dtype: up to `max`, with `digits` bits, and from 2^(min_exponent - 1) on normal. Here and not
// from std::numeric_limits, because 16-bit floats are incomplete types for GPU kernels.
struct FloatLimits {
  double max;
  int digits, min_exponent;

  static constexpr FloatLimits Of(DType dtype) {
    switch (dtype) {
      case DType::kFloat16: return {65504, 11, -13};
      case DType::kBFloat16: return {0x1.fep127, 8, -125};
      case DType::kFloat64: return From<double>();
      default: return From<float>();
    }
  }
  // The distance between numbers of the dtype next to x.
  double Spacing(double x) const {
    int exponent = 0;
    std::frexp(x, &exponent);
    return std::ldexp(1.0, std::max(exponent, min_exponent) - digits);
  }

 private:
  template <class C>
  static constexpr FloatLimits From() {
    using Limits = std::numeric_limits<C>;
    return {Limits::max(), Limits::digits, Limits::min_exponent};
  }
};

// InvalidArgument if no number of T is as large as `bound`, a parameter of a distribution.
template <class T>
absl::Status CheckBound(const KernelSpec& spec, absl::string_view name, double bound) {
  constexpr double kMaxFinite = FloatLimits::Of(kDTypeOf<T>).max;
  if (std::abs(bound) <= kMaxFinite) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(spec.name, ": ", name, " is ", bound, ", but ", DTypeName(kDTypeOf<T>),
                                                 " has numbers up to ", kMaxFinite));
}

// The largest number of [low, high) in T, in C, the type of the computation; `low` rounded to T if there is none.
template <class T, class C>
C LargestInRange(double low, double high) {
  constexpr FloatLimits kLimits = FloatLimits::Of(kDTypeOf<T>);
  C first = static_cast<C>(low), last = std::nextafter(static_cast<C>(high), -std::numeric_limits<C>::infinity());
  if constexpr (!std::is_same_v<T, C>) {
    const auto of_first = static_cast<C>(kLimits.Spacing(first)), of_last = static_cast<C>(kLimits.Spacing(last));
    first = std::nearbyint(first / of_first) * of_first;
    last = std::floor(last / of_last) * of_last;
  }
  return std::max(first, last);
}

// T is the dtype, C the type of the computation, float or double.
template <class T, class C>
absl::StatusOr<UniformDraw<C>> PlanUniform(const KernelSpec& spec) {
  const double low = spec.attrs.Float("low"), high = spec.attrs.Float("high");
  if (absl::Status range = CheckRange(spec, low <= high, low, high); !range.ok()) return range;
  if (absl::Status bound = CheckBound<T>(spec, "low", low); !bound.ok()) return bound;
  if (absl::Status bound = CheckBound<T>(spec, "high", high); !bound.ok()) return bound;
  const double unit = high / 2 - low / 2 > std::numeric_limits<C>::max() / 2 ? 2 : 1;
  return UniformDraw<C>{static_cast<C>(low / unit), static_cast<C>(high / unit - low / unit),
                        LargestInRange<T, C>(low, high), static_cast<C>(unit)};
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

template <class T, class C, bool truncated>
absl::StatusOr<NormalDraw<C, truncated>> PlanNormal(const KernelSpec& spec) {
  const double mean = spec.attrs.Float("mean"), stddev = spec.attrs.Float("stddev");
  if (!(stddev >= 0)) {
    return absl::InvalidArgumentError(absl::StrCat(spec.name, ": stddev must not be negative, but is ", stddev));
  }
  if (absl::Status bound = CheckBound<T>(spec, "mean", mean); !bound.ok()) return bound;
  if (absl::Status bound = CheckBound<T>(spec, "stddev", stddev); !bound.ok()) return bound;
  const double farthest = std::abs(mean) + 2 * stddev;
  if (absl::Status bound = CheckBound<T>(spec, "|mean| + 2 stddev", truncated ? farthest : 0); !bound.ok())
    return bound;
  return NormalDraw<C, truncated>{static_cast<C>(mean), static_cast<C>(stddev)};
}

}  // namespace belfry::ops
