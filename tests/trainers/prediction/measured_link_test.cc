#include "trainers/prediction/measured_link.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "framework/base/status.h"
#include "tests/framework/base/no_threads.h"
#include "tests/framework/collective/fake_world.h"

namespace belfry {
namespace {

using ::testing::HasSubstr;

constexpr absl::Duration kTime = absl::Seconds(60);

TEST(MeasureLink, AllProcessesGetTheSameTimes) {
  std::vector<MeasuredLink> measured(3);
  const auto results = RunRanks(3, {.tell_failures = true}, [&](World& world) -> absl::Status {
    ASSIGN_OR_RETURN(measured[world.rank()], MeasureLink(world, /*computing=*/1, In(kTime)));
    return world.Close(In(kTime));
  });
  for (const absl::Status& status : results) ASSERT_TRUE(status.ok()) << status;
  for (const MeasuredLink& link : measured) {
    ASSERT_GE(link.alone.size(), 2u);
    ASSERT_EQ(link.beside.size(), link.alone.size());
    ASSERT_EQ(link.processor.size(), link.alone.size());
    for (size_t i = 0; i < link.alone.size(); ++i) {
      EXPECT_EQ(link.beside[i].bytes, link.alone[i].bytes);
      EXPECT_EQ(link.processor[i].bytes, link.alone[i].bytes);
      EXPECT_LE(link.processor[i].seconds, link.beside[i].seconds * 10);
      EXPECT_EQ(link.alone[i].seconds, measured[0].alone[i].seconds);
      EXPECT_EQ(link.processor[i].seconds, measured[0].processor[i].seconds);
    }
    EXPECT_GT(link.sum, 0);
    EXPECT_EQ(link.sum, measured[0].sum);
    Exchange exchange;
    ASSERT_TRUE(SetLink(link, exchange).ok());
    EXPECT_EQ(exchange.link.Seconds(4), link.alone[0].seconds);
    EXPECT_EQ(exchange.beside.Seconds(4), link.beside[0].seconds);
    EXPECT_EQ(exchange.sum, link.sum);
    EXPECT_EQ(exchange.processor.Seconds(4), link.processor[0].seconds);
  }
}

TEST(MeasureLink, NoThreadLeftIsAnError) {
  const auto results = RunRanks(2, {.tell_failures = true}, [&](World& world) -> absl::Status {
    RETURN_IF_ERROR(world.AllGather("", In(kTime)).status());
    if (world.rank() == 1) return MeasureLink(world, /*computing=*/1, In(kTime)).status();
    const NoThreads none;
    return MeasureLink(world, /*computing=*/1, In(kTime)).status();
  });
  EXPECT_EQ(results[0].code(), absl::StatusCode::kResourceExhausted) << results[0];
  EXPECT_THAT(results[0].message(), HasSubstr("Cannot start a thread to measure the link"));
}

TEST(MeasureLink, NeedsTwoProcesses) {
  const auto world = World::Alone();
  EXPECT_THAT(MeasureLink(*world, 1, In(kTime)).status().message(), HasSubstr("mpirun -n 2"));
}

}  // namespace
}  // namespace belfry
