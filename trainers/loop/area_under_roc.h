// The area under the ROC curve of a binary classifier.
#pragma once

#include <cstdint>

#include "absl/types/span.h"

namespace belfry::trainers {

// The probability that a positive example has a higher score than a negative one, of which equal scores count half: the
// Mann-Whitney statistic (1947) divided by the number of pairs. Exact, by one sort. NaN if there are no positives, no
// negatives, or a score is NaN. REQUIRES: as many scores as marks; positive[i] is 0 or 1.
double AreaUnderRoc(absl::Span<const float> scores, absl::Span<const uint8_t> positive);

}  // namespace belfry::trainers
