#include "framework/base/philox.h"

#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "tests/main/testing.h"

namespace belfry {
namespace {

using ::testing::ElementsAre;

// Known answers from the Random123 distribution. Its counter words c0..c3 are the low and high half of our counter_low,
// then of counter_high; its key words k0, k1 are the low and high half of our key.
TEST(Philox, GivesTheKnownAnswers) {
  EXPECT_THAT(Philox4x32(0, 0, 0), ElementsAre(0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8));
  EXPECT_THAT(Philox4x32(~0ULL, ~0ULL, ~0ULL), ElementsAre(0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd));
  EXPECT_THAT(Philox4x32(0x299f31d0a4093822, 0x0370734413198a2e, 0x85a308d3243f6a88),
              ElementsAre(0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1));
}

TEST(Philox, KeysDependOnSeedAndNameAndNeverChange) {
  std::set<uint64_t> keys;
  for (uint64_t seed : {0, 1, 2}) {
    for (const char* name : {"", "a", "b", "ab", "ba", "conv1/weights", "conv2/weights"})
      keys.insert(RandomKey(seed, name));
  }
  EXPECT_EQ(keys.size(), 21u);
  EXPECT_EQ(RandomKey(7, "conv1/weights"), RandomKey(7, std::string("conv1/") + "weights"));
  // Changing these would change every training run.
  EXPECT_EQ(RandomKey(0, ""), 0x9775a911a90dcf7a);
  EXPECT_EQ(RandomKey(1, "conv1/weights"), 0x451b2d922a2a37ed);
}

TEST(Philox, UniformIsAtLeastZeroAndBelowOne) {
  EXPECT_EQ(UniformFloat(0), 0.0f);
  EXPECT_EQ(UniformFloat(0x80000000), 0.5f);
  EXPECT_EQ(UniformFloat(0xffffffff), 1 - 0x1p-24f);
  EXPECT_EQ(UniformFloat(0xff), 0.0f);
  EXPECT_EQ(UniformDouble(0, 0), 0.0);
  EXPECT_EQ(UniformDouble(0x80000000, 0), 0.5);
  EXPECT_EQ(UniformDouble(0xffffffff, 0xffffffff), 1 - 0x1p-53);
  EXPECT_EQ(UniformDouble(0, 0x800), 0x1p-53);
}

TEST(Philox, AStreamReadsBlockAfterBlock) {
  PhiloxStream stream(5, 6);
  for (uint64_t block = 0; block < 3; ++block) {
    for (uint32_t word : Philox4x32(5, 6, block)) EXPECT_EQ(stream.Next(), word);
  }
  PhiloxStream copy = stream;
  EXPECT_EQ(copy.NextFloat(), UniformFloat(stream.Next()));
  EXPECT_NE(PhiloxStream(5, 7).Next(), PhiloxStream(5, 6).Next());
  EXPECT_NE(PhiloxStream(4, 6).Next(), PhiloxStream(5, 6).Next());
}

TEST(Philox, NextBelowIsUniform) {
  PhiloxStream stream(RandomKey(1, "test"), 0);
  for (uint32_t bound : {1u, 2u, 7u, 10u}) {
    std::vector<int> counts(bound);
    constexpr int kDrawsPerValue = 10000;
    for (uint32_t i = 0; i < bound * kDrawsPerValue; ++i) {
      const uint32_t value = stream.NextBelow(bound);
      ASSERT_LT(value, bound);
      ++counts[value];
    }
    for (int count : counts) EXPECT_NEAR(count, kDrawsPerValue, 5 * std::sqrt(kDrawsPerValue)) << bound;
  }
  // With a bound of 3 * 2^30, taking the remainder would yield the lowest third in half of the draws.
  int low = 0;
  for (int i = 0; i < 30000; ++i) low += stream.NextBelow(3u << 30) < (1u << 30);
  EXPECT_NEAR(low, 10000, 500);
}

}  // namespace
}  // namespace belfry
