#include "trainers/moments.h"

#include <algorithm>
#include <cmath>

namespace belfry::trainers {

Moments MomentsOf(absl::Span<const double> values) {
  const auto rows = static_cast<double>(values.size());
  Moments moments;
  // Relative to the first row, so that the mean of a constant is exact.
  moments.mean = values[0];
  for (const double value : values) moments.mean += (value - values[0]) / rows;
  for (const double value : values) moments.spread = std::max(moments.spread, std::abs(value - moments.mean));
  if (moments.spread == 0) return moments;
  // Differences are in units of the largest, so that no square overflows or underflows.
  double variance = 0;
  for (const double value : values) {
    const double difference = (value - moments.mean) / moments.spread;
    variance += difference * difference / rows;
  }
  moments.deviation = moments.spread * std::sqrt(variance);
  return moments;
}

}  // namespace belfry::trainers
