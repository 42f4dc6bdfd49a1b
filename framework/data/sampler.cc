#include "framework/data/sampler.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/check.h"
#include "framework/base/philox.h"

namespace belfry::data {

void ShuffleEpoch(uint64_t seed, int64_t epoch, absl::Span<int64_t> order) {
  BELFRY_CHECK(order.size() < uint64_t{1} << 32);
  std::iota(order.begin(), order.end(), int64_t{0});
  PhiloxStream random(RandomKey(seed, "shuffle"), static_cast<uint64_t>(epoch));
  for (size_t left = order.size(); left > 1; --left) {
    std::swap(order[left - 1], order[random.NextBelow(static_cast<uint32_t>(left))]);
  }
}

int64_t BatchesPerEpoch(int64_t examples, int64_t batch_size, bool drop_remainder) {
  const bool remainder = examples % batch_size != 0;
  return examples / batch_size + (remainder && !drop_remainder ? 1 : 0);
}

int64_t LastBatchSize(int64_t examples, int64_t batch_size, bool drop_remainder) {
  return std::min(batch_size, examples - (BatchesPerEpoch(examples, batch_size, drop_remainder) - 1) * batch_size);
}

TowerRange RangeOfTower(int64_t examples, int towers, int tower) {
  BELFRY_CHECK(0 <= tower && tower < towers);
  const int64_t share = examples / towers, longer = examples % towers;
  return {tower * share + std::min<int64_t>(tower, longer), share + (tower < longer ? 1 : 0)};
}

absl::Status CheckTowers(int towers, int first_tower, int local_towers) {
  if (towers < 1) return absl::InvalidArgumentError(absl::StrCat("towers is ", towers, "; expected at least 1"));
  if (first_tower >= 0 && local_towers >= 0 && first_tower < towers && local_towers <= towers - first_tower) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("first_tower is ", first_tower, " and local_towers ", local_towers,
                                                 "; expected a part of the ", towers, " towers"));
}

}  // namespace belfry::data
