#include "framework/base/time_slice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <thread>

namespace belfry {
namespace {

using ::testing::AnyOf;

// Of the calling thread, in ns, by sched_getattr(2).
uint64_t Slice() {
  struct {
    uint64_t before[3], runtime, after[2];
  } attributes = {};
  EXPECT_EQ(syscall(SYS_sched_getattr, 0, &attributes, sizeof(attributes), 0), 0);
  return attributes.runtime;
}

TEST(TimeSlice, IsThatOfTheCallingThread) {
  const uint64_t before = Slice();
  uint64_t own = 0;
  std::thread([&] {
    UseShortTimeSlices();
    own = Slice();
  }).join();
  EXPECT_THAT(own, AnyOf(100'000, before)) << "Linux before 6.12 has one slice for all";
  EXPECT_EQ(Slice(), before);
}

}  // namespace
}  // namespace belfry
