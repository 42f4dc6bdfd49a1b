#include "framework/runtime/device_threads.h"

#include <set>

#include "absl/strings/str_cat.h"
#include "framework/base/cores.h"
#include "framework/base/parallel.h"
#include "tests/main/testing.h"

namespace belfry {
namespace {

DeviceSet Open(int count, const DeviceOptions& options) {
  return DeviceSet::Open(absl::StrCat("cpu:", count), options).value();
}

TEST(DeviceThreads, StayOnTheCoresOfTheirDevice) {
  const std::vector<int> all = AvailableCores();
  if (all.size() < 2) GTEST_SKIP() << "one core";
  const DeviceSet devices = Open(static_cast<int>(all.size()), {.cpu_threads = 1});
  DeviceThreads threads(devices);
  std::set<int> seen;
  for (int d = 0; d < devices.size(); ++d) {
    for (StreamKind kind : {StreamKind::kCompute, StreamKind::kCollective}) {
      std::vector<int> cores;
      int share = 0;
      const StreamTask task{[&] {
        cores = AvailableCores();
        share = ParallelThreads();
      }};
      (*threads.Get(d, kind))->Start(task);
      (*threads.Get(d, kind))->Wait();
      EXPECT_EQ(share, 1);
      EXPECT_THAT(cores, testing::ElementsAreArray(devices.device(d).cores()));
      ASSERT_EQ(cores.size(), 1);
      seen.insert(cores[0]);
    }
  }
  EXPECT_EQ(seen.size(), all.size());
  EXPECT_EQ(AvailableCores(), all) << "the caller is free";
}

TEST(DeviceThreads, RunAnywhereIfTheyAreNotBound) {
  const DeviceSet devices = Open(2, {.cpu_threads = 1, .bind_threads = false});
  DeviceThreads threads(devices);
  std::vector<int> cores;
  const StreamTask task{[&] { cores = AvailableCores(); }};
  (*threads.Get(1, StreamKind::kCompute))->Start(task);
  (*threads.Get(1, StreamKind::kCompute))->Wait();
  EXPECT_EQ(cores, AvailableCores());
}

}  // namespace
}  // namespace belfry
