#include "benchmarks/prediction/link.h"

#include <vector>

#include "framework/base/status.h"
#include "tests/framework/base/no_threads.h"
#include "tests/framework/collective/fake_world.h"

namespace belfry::benchmarks {
namespace {

using ::testing::HasSubstr;

constexpr absl::Duration kTime = absl::Seconds(60);

TEST(Link, LinearLinksHaveALatencyAndABandwidth) {
  const Link link = Link::Linear(2e-6, 1e9);
  EXPECT_DOUBLE_EQ(link.Message(0).seconds, 2e-6);
  EXPECT_DOUBLE_EQ(link.Message(1e6).seconds, 1.002e-3);
  EXPECT_EQ(Link().Message(1e9).seconds, 0);
}

TEST(Link, NamedLinksStayBelowTheirLine) {
  const struct {
    const char* name;
    double line;
  } kNamed[] = {{"1gbe", 1e9 / 8}, {"10gbe", 10e9 / 8}, {"ib100", 100e9 / 8}};
  for (const auto& named : kNamed) {
    ASSERT_OK_AND_ASSIGN(const auto link, Link::Find(named.name));
    EXPECT_GT(link.Message(1e9).seconds, 1e9 / named.line) << named.name;
    EXPECT_LT(link.Message(1e9).seconds, 1.2e9 / named.line) << named.name;
  }
  EXPECT_THAT(Link::Find("40gbe").status().message(), HasSubstr("'40gbe' is unknown; expected 1gbe"));
}

TEST(Link, InterpolatesInLogarithms) {
  const auto cost = [](double seconds) { return Cost{seconds, 2 * seconds, seconds / 2}; };
  const Link link({{100, cost(1e-6)}, {10'000, cost(4e-6)}, {1'000'000, cost(1e-3)}}, /*sum=*/0);
  EXPECT_DOUBLE_EQ(link.Message(0).seconds, 1e-6);
  EXPECT_DOUBLE_EQ(link.Message(100).seconds, 1e-6);
  EXPECT_NEAR(link.Message(1000).seconds, 2e-6, 1e-15);
  EXPECT_NEAR(link.Message(1000).beside, 4e-6, 1e-15);
  EXPECT_NEAR(link.Message(1000).processor, 1e-6, 1e-15);
  EXPECT_NEAR(link.Message(10'000).seconds, 4e-6, 1e-15);
  EXPECT_DOUBLE_EQ(link.Message(3e6).seconds, 3e-3);
}

TEST(Average, FollowsTheFormula) {
  const double a = 25e-6, b = 1.1e9, s = 4e6;
  for (const int64_t p : {2, 3, 8, 1000}) {
    const auto count = static_cast<double>(p);
    EXPECT_NEAR(Link::Linear(a, b).Average(s, p).seconds, 2 * (count - 1) * a + 2 * s / b * (count - 1) / count, 1e-12);
  }
  EXPECT_EQ(Link::Linear(1, 1).Average(s, 1).seconds, 0);
}

// Two messages of 0.5 MB, whose costs are given, and the sum of 1 MB.
Cost AverageOf(const Cost& message, double sum = 0) {
  return Link({{0.5e6, message}, {1e6, message}}, sum).Average(1e6, 2);
}

TEST(Average, IsAtLeastTheProcessorsTime) {
  EXPECT_DOUBLE_EQ(AverageOf({.seconds = 1e-9, .beside = 1e-9, .processor = 0.5e-3}).seconds, 1e-3);
  const Cost slow = AverageOf({.seconds = 5e-3, .beside = 5e-3, .processor = 0.5e-3});
  EXPECT_DOUBLE_EQ(slow.processor, 1e-3);
  EXPECT_DOUBLE_EQ(slow.seconds, 1e-2);
}

TEST(Average, TimesBesideComputingAreNeverShorter) {
  EXPECT_DOUBLE_EQ(AverageOf({.seconds = 5e-3, .beside = 6e-3, .processor = 1e-9}).beside, 12e-3);
  EXPECT_DOUBLE_EQ(AverageOf({.seconds = 5e-3, .beside = 1e-3, .processor = 1e-9}).beside, 10e-3);
}

TEST(Average, SumsTakeTime) {
  const Cost cost = AverageOf({.seconds = 5e-3, .beside = 5e-3, .processor = 1e-9}, /*sum=*/1e-9);
  EXPECT_DOUBLE_EQ(cost.seconds, 11e-3);
  EXPECT_DOUBLE_EQ(cost.beside, 11e-3);
  EXPECT_NEAR(cost.processor, 1e-3, 1e-8);
}

TEST(MeasureLink, AllProcessesGetTheSameTimes) {
  std::vector<Link> measured(3);
  const auto results = RunRanks(3, {.tell_failures = true}, [&](World& world) -> absl::Status {
    ASSIGN_OR_RETURN(measured[world.rank()], MeasureLink(world, In(kTime)));
    return world.Close(In(kTime));
  });
  for (const absl::Status& status : results) ASSERT_TRUE(status.ok()) << status;
  for (const Link& link : measured) {
    ASSERT_GE(link.points().size(), 2u);
    ASSERT_EQ(link.points().size(), measured[0].points().size());
    for (size_t i = 0; i < link.points().size(); ++i) {
      const auto& [bytes, cost] = link.points()[i];
      EXPECT_GT(bytes, i > 0 ? link.points()[i - 1].bytes : 0);
      EXPECT_GT(cost.seconds, 0);
      EXPECT_GT(cost.processor, 0);
      EXPECT_LE(cost.processor, cost.beside * 10);
      EXPECT_EQ(cost.seconds, measured[0].points()[i].cost.seconds);
      EXPECT_EQ(cost.processor, measured[0].points()[i].cost.processor);
    }
    EXPECT_GT(link.sum(), 0);
    EXPECT_EQ(link.sum(), measured[0].sum());
  }
}

TEST(MeasureLink, NoThreadLeftIsAnError) {
  const auto results = RunRanks(2, {.tell_failures = true}, [&](World& world) -> absl::Status {
    RETURN_IF_ERROR(world.AllGather("", In(kTime)).status());
    if (world.rank() == 1) return MeasureLink(world, In(kTime)).status();
    const NoThreads none;
    return MeasureLink(world, In(kTime)).status();
  });
  EXPECT_EQ(results[0].code(), absl::StatusCode::kResourceExhausted) << results[0];
  EXPECT_THAT(results[0].message(), HasSubstr("Cannot start a thread to measure the link"));
}

TEST(MeasureLink, NeedsTwoProcesses) {
  const auto world = World::Alone();
  EXPECT_THAT(MeasureLink(*world, In(kTime)).status().message(), HasSubstr("mpirun -n 2"));
}

}  // namespace
}  // namespace belfry::benchmarks
