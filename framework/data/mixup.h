// MixUp: the examples of a batch in pairs.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "framework/data/field.h"

namespace belfry::data {

// The fields that MixUp adds to a batch: for each field that is not float32, one of its name and this suffix with the
// value of the partner; and one with the weight of the example in the mixture, float32 [].
inline constexpr char kPartnerSuffix[] = "_of_partner";
inline constexpr char kMixtureWeight[] = "mixture_weight";

// These fields for examples with `fields`, in their order; the weight is the last.
std::vector<Field> MixtureFields(absl::Span<const Field> fields);

// The mixtures of a batch: a weight from Beta(alpha, alpha), and the partner of each position, by a permutation of
// all. Depends on (seed, alpha, step, partners.size()) only. REQUIRES: alpha > 0, and finite.
double DrawMixture(uint64_t seed, double alpha, int64_t step, absl::Span<int64_t> partners);

}  // namespace belfry::data
