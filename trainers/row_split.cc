#include "trainers/row_split.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "framework/base/philox.h"

namespace belfry::trainers {

RowSplit SplitRows(int64_t rows, double fraction, uint64_t seed) {
  const uint64_t key = RandomKey(seed, "held out rows");
  std::vector<std::pair<uint64_t, int64_t>> order;
  for (int64_t row = 0; row < rows; ++row) {
    const auto words = Philox4x32(key, 0, static_cast<uint64_t>(row));
    order.emplace_back(uint64_t{words[0]} << 32 | words[1], row);
  }
  std::sort(order.begin(), order.end());
  const auto count = std::max<int64_t>(std::llround(fraction * static_cast<double>(rows)), fraction > 0 ? 1 : 0);
  RowSplit split;
  for (int64_t i = 0; i < rows; ++i) (i < count ? split.held_out : split.training).push_back(order[i].second);
  std::sort(split.training.begin(), split.training.end());
  std::sort(split.held_out.begin(), split.held_out.end());
  return split;
}

}  // namespace belfry::trainers
