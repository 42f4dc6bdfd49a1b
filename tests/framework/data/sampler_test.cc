#include "framework/data/sampler.h"

#include <algorithm>
#include <limits>
#include <map>
#include <vector>

#include "tests/framework/io/io_testing.h"

namespace belfry::data {
namespace {

std::vector<int64_t> Order(uint64_t seed, int64_t epoch, int64_t size) {
  std::vector<int64_t> order(size);
  ShuffleEpoch(seed, epoch, absl::MakeSpan(order));
  return order;
}

TEST(ShuffleEpoch, IsAPermutationThatDependsOnSeedAndEpoch) {
  FreshRandom random;
  for (int64_t size : {0, 1, 2, 7, 1'001}) {
    std::vector<int64_t> order = Order(random.seed(), 3, size);
    EXPECT_EQ(order, Order(random.seed(), 3, size));
    std::sort(order.begin(), order.end());
    for (int64_t i = 0; i < size; ++i) EXPECT_EQ(order[i], i);
  }
  EXPECT_NE(Order(random.seed(), 3, 100), Order(random.seed(), 4, 100));
  EXPECT_NE(Order(random.seed(), 3, 100), Order(random.seed() + 1, 3, 100));
}

TEST(ShuffleEpoch, GivesEachPermutationEqually) {
  std::map<std::vector<int64_t>, int> counts;
  constexpr int kEpochs = 24'000;
  for (int epoch = 0; epoch < kEpochs; ++epoch) ++counts[Order(5, epoch, 4)];
  ASSERT_EQ(counts.size(), 24u);
  for (const auto& [order, count] : counts) EXPECT_NEAR(count, kEpochs / 24, 160);  // 5 standard deviations
}

TEST(BatchesPerEpoch, CountsTheRemainderUnlessItIsDropped) {
  EXPECT_EQ(BatchesPerEpoch(10, 5, false), 2);
  EXPECT_EQ(BatchesPerEpoch(11, 5, false), 3);
  EXPECT_EQ(BatchesPerEpoch(11, 5, true), 2);
  EXPECT_EQ(BatchesPerEpoch(3, 5, false), 1);
  EXPECT_EQ(BatchesPerEpoch(3, 5, true), 0);
  constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(BatchesPerEpoch(3, kHuge, false), 1);
  EXPECT_EQ(BatchesPerEpoch(3, kHuge, true), 0);
  EXPECT_EQ(BatchesPerEpoch(kHuge, kHuge, false), 1);
}

TEST(LastBatchSize, IsTheRemainderUnlessItIsDropped) {
  EXPECT_EQ(LastBatchSize(10, 5, false), 5);
  EXPECT_EQ(LastBatchSize(11, 5, false), 1);
  EXPECT_EQ(LastBatchSize(11, 5, true), 5);
  EXPECT_EQ(LastBatchSize(3, 5, false), 3);
}

TEST(RangeOfTower, CoversTheBatchEvenly) {
  for (int64_t examples : {0, 1, 2, 3, 7, 128}) {
    for (int towers : {1, 2, 3, 8}) {
      int64_t next = 0;
      for (int i = 0; i < towers; ++i) {
        const TowerRange range = RangeOfTower(examples, towers, i);
        EXPECT_EQ(range.begin, next);
        EXPECT_EQ(range.count, examples / towers + (i < examples % towers ? 1 : 0));
        next += range.count;
      }
      EXPECT_EQ(next, examples);
    }
  }
}

}  // namespace
}  // namespace belfry::data
