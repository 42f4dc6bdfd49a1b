#include "framework/data/sequences/buckets.h"
#include "tests/main/testing.h"

#include <algorithm>
#include <set>

namespace belfry::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<int64_t> RandomLengths(int64_t count, int64_t longest) {
  std::vector<int64_t> lengths;
  std::uniform_int_distribution<int64_t> uniform(0, longest);
  for (int64_t i = 0; i < count; ++i) lengths.push_back(uniform(TestRandom()));
  return lengths;
}

TEST(Buckets, BoundsDoubleUpToTheLongest) {
  const auto bounds = [](std::vector<int64_t> lengths) {
    const auto buckets = ValueOf(Buckets::Make(lengths, {}));
    return std::vector<int64_t>(buckets.bounds().begin(), buckets.bounds().end());
  };
  EXPECT_THAT(bounds({3, 50, 9}), ElementsAre(8, 16, 32, 50));
  EXPECT_THAT(bounds({3, 16}), ElementsAre(8, 16));
  EXPECT_THAT(bounds({5}), ElementsAre(5));
  EXPECT_THAT(bounds({0, 0}), ElementsAre(1));
}

TEST(Buckets, AnExampleIsInTheFirstThatHoldsIt) {
  ASSERT_OK_AND_ASSIGN(const auto buckets, Buckets::Make({0, 4, 5, 9, 10, 10}, {4, 9, 12, 20}));
  EXPECT_THAT(buckets.sizes(), ElementsAre(2, 2, 2, 0));
}

TEST(Buckets, RefusesBoundsAndLengthsThatDoNotFit) {
  const auto error = [](const std::vector<int64_t>& lengths, std::vector<int64_t> bounds) {
    const absl::Status status = Buckets::Make(lengths, std::move(bounds)).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_THAT(error({1}, {0, 4}), HasSubstr("the bounds of buckets are 0, 4; expected ascending"));
  EXPECT_THAT(error({1}, {4, 4}), HasSubstr("4, 4"));
  EXPECT_THAT(error({1, 2, 13}, {4, 12}), HasSubstr("example 2 has the length 13; expected 0 to the last bound"));
  EXPECT_THAT(error({1, -1}, {}), HasSubstr("example 1 has the length -1"));
}

TEST(Buckets, AnEpochHasEveryExampleOnceInBatchesOfOneBucket) {
  const std::vector<int64_t> lengths = RandomLengths(501, 70);
  ASSERT_OK_AND_ASSIGN(const auto buckets, Buckets::Make(lengths, {5, 20, 40, 70}));
  for (const bool shuffle : {false, true}) {
    const BucketEpoch epoch = buckets.Deal(7, 3, shuffle, 8, false);
    EXPECT_EQ(static_cast<int64_t>(epoch.batches.size()), buckets.BatchesPerEpoch(8, false));
    std::multiset<int64_t> seen;
    std::vector<int> smaller(4);
    for (const BucketBatch& batch : epoch.batches) {
      EXPECT_LE(batch.count, 8);
      EXPECT_GE(batch.count, 1);
      smaller[batch.bucket] += batch.count < 8 ? 1 : 0;
      for (int64_t i = batch.begin; i < batch.begin + batch.count; ++i) {
        const int64_t example = epoch.order[static_cast<size_t>(i)], length = lengths[static_cast<size_t>(example)];
        seen.insert(example);
        EXPECT_LE(length, buckets.bounds()[batch.bucket]);
        EXPECT_GT(length, batch.bucket == 0 ? -1 : buckets.bounds()[batch.bucket - 1]);
      }
    }
    EXPECT_EQ(seen.size(), 501u);
    EXPECT_EQ(std::set<int64_t>(seen.begin(), seen.end()).size(), 501u);
    for (size_t i = 0; i < 4; ++i) EXPECT_EQ(smaller[i], buckets.sizes()[i] % 8 == 0 ? 0 : 1);
  }
}

TEST(Buckets, WithoutRemainderAllBatchesAreWhole) {
  const std::vector<int64_t> lengths = RandomLengths(301, 30);
  ASSERT_OK_AND_ASSIGN(const auto buckets, Buckets::Make(lengths, {}));
  const BucketEpoch epoch = buckets.Deal(7, 0, true, 16, true);
  int64_t whole = 0;
  for (const int64_t size : buckets.sizes()) whole += size / 16;
  EXPECT_EQ(static_cast<int64_t>(epoch.batches.size()), whole);
  EXPECT_EQ(buckets.BatchesPerEpoch(16, true), whole);
  for (const BucketBatch& batch : epoch.batches) EXPECT_EQ(batch.count, 16);
}

TEST(Buckets, EpochsDependOnTheSeedAndTheirNumberOnly) {
  const std::vector<int64_t> lengths = RandomLengths(200, 30);
  ASSERT_OK_AND_ASSIGN(const auto buckets, Buckets::Make(lengths, {}));
  const auto order = [&](uint64_t seed, int64_t epoch) {
    const BucketEpoch dealt = buckets.Deal(seed, epoch, true, 16, false);
    std::vector<int64_t> examples;
    for (const BucketBatch& batch : dealt.batches) {
      examples.insert(examples.end(), dealt.order.begin() + batch.begin,
                      dealt.order.begin() + batch.begin + batch.count);
    }
    return examples;
  };
  EXPECT_EQ(order(1, 2), order(1, 2));
  EXPECT_NE(order(1, 2), order(1, 3));
  EXPECT_NE(order(1, 2), order(2, 2));
}

// Sorted by length, a model would see short sequences first in every epoch.
TEST(Buckets, ShortAndLongBatchesAreMixed) {
  ASSERT_OK_AND_ASSIGN(const auto buckets, Buckets::Make(RandomLengths(2000, 30), {10, 20, 30}));
  const BucketEpoch epoch = buckets.Deal(1, 0, true, 10, false);
  std::set<size_t> in_first_half;
  for (size_t i = 0; i < epoch.batches.size() / 2; ++i) in_first_half.insert(epoch.batches[i].bucket);
  EXPECT_EQ(in_first_half.size(), 3u);
}

}  // namespace
}  // namespace belfry::data
