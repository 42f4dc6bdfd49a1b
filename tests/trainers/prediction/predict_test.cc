#include "trainers/prediction/predict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/trainers/prediction/instructions.h"

namespace belfry {
namespace {

using prediction::Average;
using prediction::Kernel;
using prediction::Record;
using prediction::Wait;
using ::testing::HasSubstr;

// The tutorial network on one thread, 128 images in 53.6 ms. Its first bucket are the dense layers, ready 20 ms into
// the step; the second one the convolutions, whose backward pass is the rest of it but for the updates.
StepModel Tutorial() {
  const double dense = 4 * (2304 * 384 + 384 + 384 * 192 + 192 + 192 * 10 + 10);
  const double convolutions = 4 * (5 * 5 * 64 * 64 + 64 + 5 * 5 * 3 * 64 + 64);
  return {.compute = {Kernel(20e-3), Record(0), Kernel(33.3e-3), Record(1), Wait(2), Wait(3), Kernel(0.3e-3)},
          .collective = {Wait(0), Average(dense), Record(2), Wait(1), Average(convolutions), Record(3)}};
}

PredictOptions Over(const char* link) { return {.exchange = {.link = LinkTable::Find(link).value()}, .images = 128}; }

Prediction PredictOrFail(const StepModel& model, const PredictOptions& options, int64_t processes) {
  const auto prediction = Predict(model, options, processes);
  EXPECT_TRUE(prediction.ok()) << prediction.status();
  return prediction.value_or(Prediction());
}

TEST(CostOfExchange, FollowsTheFormulas) {
  const double a = 25e-6, b = 1.1e9, s = 4e6;
  for (const int64_t p : {2, 3, 8, 1000}) {
    const auto count = static_cast<double>(p);
    const double latency = 2 * (count - 1) * a, part = s / b * (count - 1) / count;
    for (const int towers : {1, 2, 4}) {
      Exchange exchange{.link = LinkTable::Linear(a, b), .towers = towers};
      EXPECT_NEAR(CostOfExchange(exchange, s, p).seconds, latency + (towers + 1) * part, 1e-12);
      exchange.way = ExchangeWay::kRing;
      EXPECT_NEAR(CostOfExchange(exchange, s, p).seconds, latency + 2 * part, 1e-12);
    }
  }
}

TEST(CostOfExchange, OneProcessExchangesNothing) {
  const Exchange exchange{.link = LinkTable::Linear(1, 1), .towers = 4, .processor = LinkTable::Linear(1, 1)};
  EXPECT_EQ(CostOfExchange(exchange, 1e6, 1).seconds, 0);
  EXPECT_EQ(CostOfExchange(exchange, 1e6, 1).processor, 0);
}

TEST(CostOfExchange, AMeasuredLinkIsAskedForEachMessage) {
  const auto link = LinkTable::Interpolate({{1000, 1e-6}, {2000, 5e-6}});
  ASSERT_TRUE(link.ok());
  // Four processes with two towers of 4,000 bytes each: each sends 2,000 bytes to every other one, and then 1,000.
  EXPECT_NEAR(CostOfExchange({.link = *link, .towers = 2}, 4000, 4).seconds, 3 * (5e-6 + 1e-6), 1e-15);
  EXPECT_NEAR(CostOfExchange({.way = ExchangeWay::kRing, .link = *link, .towers = 2}, 4000, 4).seconds, 6e-6, 1e-15);
}

TEST(CostOfExchange, IsAtLeastTheProcessorsTime) {
  const CollectiveCost fast = CostOfExchange({.processor = LinkTable::Linear(0, 1e9)}, 1e6, 2);
  EXPECT_DOUBLE_EQ(fast.processor, 1e-3);  // 0.5 MB in each half
  EXPECT_DOUBLE_EQ(fast.seconds, 1e-3);
  const CollectiveCost slow =
      CostOfExchange({.link = LinkTable::Linear(0, 1e8), .processor = LinkTable::Linear(0, 1e9)}, 1e6, 2);
  EXPECT_DOUBLE_EQ(slow.processor, 1e-3);
  EXPECT_DOUBLE_EQ(slow.seconds, 1e-2);
}

TEST(CostOfExchange, TimesBesideComputingAreNeverShorter) {
  const LinkTable link = LinkTable::Linear(0, 1e8);
  const CollectiveCost longer = CostOfExchange({.link = link, .beside = LinkTable::Linear(1e-3, 1e8)}, 1e6, 2);
  EXPECT_DOUBLE_EQ(longer.seconds, 10e-3);
  EXPECT_DOUBLE_EQ(longer.beside, 12e-3);
  EXPECT_DOUBLE_EQ(CostOfExchange({.link = link, .beside = LinkTable::Linear(0, 1e9)}, 1e6, 2).beside, 10e-3);
}

TEST(CostOfExchange, SumsTakeTime) {
  const LinkTable link = LinkTable::Linear(0, 1e8);
  const CollectiveCost cost = CostOfExchange({.link = link, .towers = 2, .sum = 1e-9}, 1e6, 2);
  EXPECT_DOUBLE_EQ(cost.seconds, 15e-3 + 2e-3);
  EXPECT_DOUBLE_EQ(cost.beside, 17e-3);
  EXPECT_DOUBLE_EQ(cost.processor, 2e-3);
  const CollectiveCost ring =
      CostOfExchange({.way = ExchangeWay::kRing, .link = link, .towers = 2, .sum = 1e-9}, 1e6, 2);
  EXPECT_DOUBLE_EQ(ring.processor, 3e-3);  // the own two towers, and the sums of both processes
}

// Exact values: 1 / sqrt(pi), 3 / (2 sqrt(pi)), and by numerical integration.
TEST(ExpectedLargest, OfNormalValues) {
  EXPECT_EQ(ExpectedLargest(1), 0);
  EXPECT_NEAR(ExpectedLargest(2), 0.5642, 0.03);
  EXPECT_NEAR(ExpectedLargest(3), 0.8463, 0.03);
  EXPECT_NEAR(ExpectedLargest(10), 1.5388, 0.03);
  EXPECT_NEAR(ExpectedLargest(1000), 3.2414, 0.03);
}

// Efficiencies by the formulas alone, worked out when the exchange was designed.
TEST(Predict, TutorialNetworkByFormula) {
  const int64_t kProcesses[] = {2, 8, 64, 256, 1000};
  const struct {
    const char* link;
    double efficiency[5];
  } kRows[] = {{"1gbe", {0.93, 0.63, 0.51, 0.37, 0.18}},
               {"10gbe", {0.99, 0.98, 0.93, 0.80, 0.42}},
               {"ib100", {1.00, 1.00, 0.99, 0.98, 0.93}}};
  for (const auto& row : kRows) {
    for (size_t i = 0; i < std::size(kProcesses); ++i) {
      EXPECT_NEAR(PredictOrFail(Tutorial(), Over(row.link), kProcesses[i]).efficiency, row.efficiency[i], 0.005)
          << row.link << ", " << kProcesses[i] << " processes";
    }
  }
}

TEST(Predict, OneProcessRunsAsItIs) {
  PredictOptions options = Over("1gbe");
  options.straggling = 1;
  options.host = 1;
  const Prediction alone = PredictOrFail(Tutorial(), options, 1);
  EXPECT_DOUBLE_EQ(alone.step, 53.6e-3);
  EXPECT_DOUBLE_EQ(alone.efficiency, 1);
  EXPECT_DOUBLE_EQ(alone.images_per_second, 128 / 53.6e-3);
  EXPECT_EQ(alone.exposed, 0);
  EXPECT_EQ(alone.bound, Bound::kCompute);
}

TEST(Predict, MoreProcessesAreNeverFasterEach) {
  for (const char* link : {"1gbe", "10gbe", "ib100"}) {
    for (const ExchangeWay way : {ExchangeWay::kSlices, ExchangeWay::kRing}) {
      for (const int towers : {1, 4}) {
        PredictOptions options = Over(link);
        options.exchange.way = way;
        options.exchange.towers = towers;
        options.exchange.processor = LinkTable::Linear(0, 3.3e9);
        options.straggling = 1e-3;
        double last = 0;
        for (int64_t processes = 1; processes <= 4096; processes = processes * 3 / 2 + 1) {
          const Prediction now = PredictOrFail(Tutorial(), options, processes);
          EXPECT_GE(now.step, last) << link << ", " << processes;
          EXPECT_LE(now.efficiency, 1) << link << ", " << processes;
          last = now.step;
        }
      }
    }
  }
}

TEST(Predict, FasterLinksAreNeverSlower) {
  for (const int64_t processes : {2, 64, 1000}) {
    const double slow = PredictOrFail(Tutorial(), Over("1gbe"), processes).step;
    const double medium = PredictOrFail(Tutorial(), Over("10gbe"), processes).step;
    EXPECT_GT(slow, medium);
    EXPECT_GE(medium, PredictOrFail(Tutorial(), Over("ib100"), processes).step);
  }
}

TEST(Predict, TheSlowestOfManyAndTheHostAreAdded) {
  PredictOptions options = Over("ib100");
  const double step = PredictOrFail(Tutorial(), options, 1000).step;
  options.straggling = 2e-3;
  options.host = 7e-3;
  EXPECT_NEAR(PredictOrFail(Tutorial(), options, 1000).step, step + 2e-3 * ExpectedLargest(1000) + 7e-3, 1e-12);
}

TEST(Predict, SaysWhatBoundsTheStep) {
  PredictOptions options = Over("10gbe");
  EXPECT_EQ(PredictOrFail(Tutorial(), options, 2).bound, Bound::kCompute);
  EXPECT_EQ(PredictOrFail(Tutorial(), options, 1000).bound, Bound::kLatency);
  EXPECT_EQ(PredictOrFail(Tutorial(), Over("1gbe"), 8).bound, Bound::kBandwidth);
  options.host = 50e-3;
  EXPECT_EQ(PredictOrFail(Tutorial(), options, 8).bound, Bound::kHost);
  options.straggling = 50e-3;
  EXPECT_EQ(PredictOrFail(Tutorial(), options, 8).bound, Bound::kStragglers);
  options = Over("ib100");
  options.exchange.processor = LinkTable::Linear(0, 1e9);
  EXPECT_EQ(PredictOrFail(Tutorial(), options, 8).bound, Bound::kProcessor);
  EXPECT_EQ(BoundName(Bound::kBandwidth), "bandwidth");
}

TEST(Predict, ImagesOfAllTowersCount) {
  PredictOptions options = Over("10gbe");
  options.exchange.towers = 4;
  const Prediction prediction = PredictOrFail(Tutorial(), options, 8);
  EXPECT_NEAR(prediction.images_per_second, 8 * 4 * 128 / prediction.step, 1e-6);
}

TEST(Predict, NoProcessAtAllIsAnError) {
  EXPECT_THAT(Predict(Tutorial(), Over("10gbe"), 0).status().message(), HasSubstr("at least 1"));
}

TEST(LargestCount, IsTheLastOneThatIsEfficient) {
  for (const char* link : {"1gbe", "10gbe", "ib100"}) {
    const auto largest = LargestCount(Tutorial(), Over(link), 0.9, 1'000'000);
    ASSERT_TRUE(largest.ok()) << largest.status();
    EXPECT_GE(PredictOrFail(Tutorial(), Over(link), *largest).efficiency, 0.9);
    EXPECT_LT(PredictOrFail(Tutorial(), Over(link), *largest + 1).efficiency, 0.9);
  }
  for (int64_t largest = 1; largest <= 40; ++largest) {
    const double efficiency = PredictOrFail(Tutorial(), Over("1gbe"), largest).efficiency;
    EXPECT_EQ(LargestCount(Tutorial(), Over("1gbe"), efficiency, 1000).value(), largest);
  }
  EXPECT_EQ(LargestCount(Tutorial(), {}, 0.9, 1000).value(), 1000);  // a link on which nothing takes time
  EXPECT_EQ(LargestCount(Tutorial(), Over("1gbe"), 0.99, 1000).value(), 1);
}

TEST(ShortestStep, LatencyFavoursFewBucketsAndBandwidthMany) {
  const double bytes = 4.27e6;
  const StepModel one = {.compute = {Kernel(50e-3), Record(0), Wait(1)},
                         .collective = {Wait(0), Average(bytes), Record(1)}};
  const StepModel two = {
      .compute = {Kernel(20e-3), Record(0), Kernel(30e-3), Record(1), Wait(2), Wait(3)},
      .collective = {Wait(0), Average(bytes / 2), Record(2), Wait(1), Average(bytes / 2), Record(3)}};
  EXPECT_EQ(ShortestStep({one, two}, Over("1gbe"), 2).value(), 1u);
  EXPECT_EQ(ShortestStep({two, one}, Over("10gbe"), 100'000).value(), 1u);
  EXPECT_EQ(ShortestStep({two, one}, Over("1gbe"), 1).value(), 1u);  // all alike: the one with fewer collectives
}

}  // namespace
}  // namespace belfry
