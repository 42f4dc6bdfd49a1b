#include "trainers/loop/area_under_roc.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>
#include <vector>

#include "framework/base/check.h"

namespace belfry::trainers {

double AreaUnderRoc(absl::Span<const float> scores, absl::Span<const uint8_t> positive) {
  BELFRY_CHECK(scores.size() == positive.size());
  constexpr double kUndefined = std::numeric_limits<double>::quiet_NaN();
  std::vector<std::pair<float, uint8_t>> examples;
  examples.reserve(scores.size());
  for (size_t i = 0; i < scores.size(); ++i) {
    if (std::isnan(scores[i])) return kUndefined;
    examples.emplace_back(scores[i], positive[i]);
  }
  std::sort(examples.begin(), examples.end());
  int64_t positives = 0, negatives = 0, half_pairs = 0;
  for (size_t begin = 0, end = 0; begin < examples.size(); begin = end) {
    int64_t equal[2] = {0, 0};
    for (; end < examples.size() && examples[end].first == examples[begin].first; ++end) ++equal[examples[end].second];
    half_pairs += equal[1] * (2 * negatives + equal[0]);
    negatives += equal[0];
    positives += equal[1];
  }
  if (positives == 0 || negatives == 0) return kUndefined;
  return static_cast<double>(half_pairs) / 2 / static_cast<double>(positives) / static_cast<double>(negatives);
}

}  // namespace belfry::trainers
