// Mean and deviation of the numbers of a column.
#pragma once

#include "absl/types/span.h"

namespace belfry::trainers {

struct Moments {
  double mean = 0;
  double spread = 0;     // the largest distance of a value from the mean
  double deviation = 1;  // the standard deviation; 1 if all values are the same
};
// Exact for constants, and without overflow or underflow of squares. The spread is infinite if it overflows.
// REQUIRES: there is a value, and all are finite.
Moments MomentsOf(absl::Span<const double> values);

}  // namespace belfry::trainers
