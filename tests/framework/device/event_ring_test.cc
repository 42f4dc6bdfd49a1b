#include "framework/device/event_ring.h"

#include "tests/main/testing.h"

namespace belfry {
namespace {

using Ring = EventRing<const uint32_t>;

TEST(EventRing, RemembersTheLastRuns) {
  Ring ring;
  uint32_t records[100];
  for (uint32_t run = 0; run < 100; ++run) {
    ring.Set(run, &records[run]);
    for (uint32_t back = 0; back <= kEventRuns && back <= run; ++back) {
      ASSERT_EQ(ring.At(run - back), &records[run - back]) << run;
    }
  }
}

TEST(EventRing, IsReachedAtFirstAndAfterReset) {
  Ring ring;
  const uint32_t record = 0;
  for (uint32_t run : {0u, 1u, 7u, 0u - 1}) EXPECT_EQ(ring.At(run), nullptr);
  for (uint32_t run = 1; run <= 20; ++run) ring.Set(run, &record);
  ring.Reset(20);
  for (uint32_t run = 12; run <= 20; ++run) EXPECT_EQ(ring.At(run), nullptr);
  ring.Set(21, &record);
  EXPECT_EQ(ring.At(21), &record);
  EXPECT_EQ(ring.At(20), nullptr);
}

TEST(EventRing, RunsWrapAround) {
  Ring ring;
  const uint32_t first = 0u - 6;
  ring.Reset(first);
  uint32_t records[12];
  for (uint32_t i = 1; i < 12; ++i) {
    ring.Set(first + i, &records[i]);
    for (uint32_t back = 0; back <= kEventRuns && back < i; ++back) {
      ASSERT_EQ(ring.At(first + i - back), &records[i - back]);
    }
  }
}

TEST(EventRing, SkippedRunsAreReachedWithTheNext) {
  Ring ring;
  uint32_t records[4];
  ring.Set(1, &records[0]);
  ring.Set(4, &records[1]);
  EXPECT_EQ(ring.At(1), &records[0]);
  for (uint32_t run : {2u, 3u, 4u}) EXPECT_EQ(ring.At(run), &records[1]);
  ring.Set(1000, &records[2]);
  for (uint32_t run = 1000 - kEventRuns; run <= 1000; ++run) EXPECT_EQ(ring.At(run), &records[2]);
}

TEST(EventRing, TheSameRunAgainReplacesOnlyItself) {
  Ring ring;
  uint32_t records[4];
  ring.Set(1, &records[0]);
  ring.Set(2, &records[1]);
  ring.Set(2, &records[2]);
  EXPECT_EQ(ring.At(1), &records[0]);
  EXPECT_EQ(ring.At(2), &records[2]);
}

}  // namespace
}  // namespace belfry
