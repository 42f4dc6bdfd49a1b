#include "trainers/loop/area_under_roc.h"
#include "tests/main/testing.h"

#include <cmath>
#include <random>
#include <vector>

namespace belfry::trainers {
namespace {

// The share of all pairs that are in order.
double ByPairs(const std::vector<float>& scores, const std::vector<uint8_t>& positive) {
  double won = 0, pairs = 0;
  for (size_t i = 0; i < scores.size(); ++i) {
    for (size_t j = 0; j < scores.size(); ++j) {
      if (positive[i] == 0 || positive[j] == 1) continue;
      pairs += 1;
      won += scores[i] > scores[j] ? 1 : scores[i] == scores[j] ? 0.5 : 0;
    }
  }
  return won / pairs;
}

TEST(AreaUnderRoc, IsTheShareOfPairsInOrder) {
  std::mt19937& random = TestRandom();
  for (const int64_t n : {2, 3, 17, 200}) {
    for (const unsigned values : {2u, 7u, 1'000'000u}) {  // few values: many ties
      std::vector<float> scores;
      std::vector<uint8_t> positive;
      for (int64_t i = 0; i < n; ++i) {
        scores.push_back(static_cast<float>(random() % values) - 1);
        positive.push_back(i < 2 ? static_cast<uint8_t>(i) : random() % 3 == 0);
      }
      EXPECT_DOUBLE_EQ(AreaUnderRoc(scores, positive), ByPairs(scores, positive)) << n << " of " << values;
    }
  }
}

TEST(AreaUnderRoc, OfKnownOrders) {
  using Scores = std::vector<float>;
  const uint8_t positive[] = {0, 0, 1, 1};
  EXPECT_EQ(AreaUnderRoc(Scores{1, 2, 3, 4}, positive), 1);
  EXPECT_EQ(AreaUnderRoc(Scores{4, 3, 2, 1}, positive), 0);
  EXPECT_EQ(AreaUnderRoc(Scores{1, 1, 1, 1}, positive), 0.5);
  EXPECT_EQ(AreaUnderRoc(Scores{-1, INFINITY, 0, INFINITY}, positive), 0.625);
}

TEST(AreaUnderRoc, IsUndefinedWithoutPairs) {
  const float scores[] = {1, 2}, unknown[] = {1, std::nanf("")};
  const uint8_t positive[] = {1, 1}, negative[] = {0, 0}, both[] = {0, 1};
  EXPECT_TRUE(std::isnan(AreaUnderRoc({}, {})));
  EXPECT_TRUE(std::isnan(AreaUnderRoc(scores, positive)));
  EXPECT_TRUE(std::isnan(AreaUnderRoc(scores, negative)));
  EXPECT_TRUE(std::isnan(AreaUnderRoc(unknown, both)));
  EXPECT_EQ(AreaUnderRoc(scores, both), 1);
}

}  // namespace
}  // namespace belfry::trainers
