#include "framework/base/cores.h"

#include <sched.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "framework/base/parallel.h"
#include "tests/main/testing.h"

namespace belfry {
namespace {

using ::testing::Each;
using ::testing::UnorderedElementsAreArray;

// The cores that the calling thread may run on.
std::set<int> Bound() {
  cpu_set_t set;
  EXPECT_EQ(sched_getaffinity(0, sizeof(set), &set), 0);
  std::set<int> cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) cores.insert(core);
  }
  return cores;
}

TEST(Cores, AreThoseOfThisProcess) { EXPECT_THAT(AvailableCores(), UnorderedElementsAreArray(Bound())); }

// A root of the system's files with `groups` as /proc/self/cgroup and the named files.
class Groups {
 public:
  explicit Groups(const std::string& groups, const std::map<std::string, std::string>& files) {
    root_.Write("proc/self/cgroup", groups);
    for (const auto& [name, text] : files) root_.Write("sys/fs/cgroup/" + name, text);
  }
  int Usable() const { return UsableCores(root_.path()); }

 private:
  const TemporaryFolder root_;
};

TEST(Cores, ALimitOfProcessorTimeCounts) {
  const int all = static_cast<int>(AvailableCores().size());
  EXPECT_EQ(UsableCores("/no such root"), all);
  EXPECT_EQ(Groups("", {}).Usable(), all);
  EXPECT_EQ(Groups("0::/\n", {{"cpu.max", "max 100000\n"}}).Usable(), all);
  EXPECT_EQ(Groups("0::/\n", {{"cpu.max", "100000 100000\n"}}).Usable(), 1);
  EXPECT_EQ(Groups("0::/\n", {{"cpu.max", "1000 100000\n"}}).Usable(), 1) << "at least one";
  EXPECT_EQ(Groups("0::/\n", {{"cpu.max", "110000 100000\n"}}).Usable(), std::min(2, all)) << "rounded up";
  EXPECT_EQ(Groups("0::/\n", {{"cpu.max", "99900000 100000\n"}}).Usable(), all) << "more than there are";
  EXPECT_EQ(Groups("0::/\n", {{"cpu.max", "two hundred\n"}}).Usable(), all);
}

TEST(Cores, TheLimitOfAGroupAroundCounts) {
  const int all = static_cast<int>(AvailableCores().size());
  EXPECT_EQ(Groups("0::/a/b/c\n", {{"a/cpu.max", "90000 100000"}, {"a/b/c/cpu.max", "max 100000"}}).Usable(), 1);
  EXPECT_EQ(Groups("0::/a/b\n", {{"other/cpu.max", "90000 100000"}}).Usable(), all);
}

TEST(Cores, TheFirstVersionOfControlGroupsCounts) {
  const std::string groups = "5:memory:/docker/7\n4:cpu,cpuacct:/docker/7\n0::/\n";
  const auto limits = [](const std::string& folder) {
    return std::map<std::string, std::string>{{folder + "cpu.cfs_quota_us", "50000\n"},
                                              {folder + "cpu.cfs_period_us", "100000\n"}};
  };
  EXPECT_EQ(Groups(groups, limits("cpu,cpuacct/docker/7/")).Usable(), 1);
  EXPECT_EQ(Groups(groups, limits("cpu,cpuacct/")).Usable(), 1) << "as seen in a container";
  EXPECT_EQ(
      Groups(groups, {{"cpu,cpuacct/cpu.cfs_quota_us", "-1"}, {"cpu,cpuacct/cpu.cfs_period_us", "100000"}}).Usable(),
      static_cast<int>(AvailableCores().size()));
}

TEST(Cores, AThreadAndThoseItStartsAreBound) {
  const int last = AvailableCores().back();
  const std::set<int> before = Bound();
  std::set<int> own, inherited;
  std::thread([&] {
    BindThisThread({last});
    own = Bound();
    std::thread([&] { inherited = Bound(); }).join();
  }).join();
  EXPECT_EQ(own, std::set<int>{last});
  EXPECT_EQ(inherited, own);
  EXPECT_EQ(Bound(), before) << "other threads are not";
}

TEST(Cores, ABoundThreadSeesItsOwn) {
  std::thread([] {
    const int first = AvailableCores().front();
    BindThisThread({first});
    EXPECT_EQ(AvailableCores(), std::vector<int>{first});
  }).join();
}

TEST(Cores, TheTeamIsBound) {
  const std::vector<int> all = AvailableCores();
  const int first = all.front();
  std::vector<std::set<int>> bound(3);
  std::thread([&] {
    const ScopedParallelThreads threads(3);
    BindThisThread({first});
    ParallelFor(3, 1e6, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) bound[i] = Bound();
    });
  }).join();
  EXPECT_THAT(bound, Each(std::set<int>{first}));
  // A second thread is not bound to the cores of the first one.
  std::thread([&] {
    const ScopedParallelThreads threads(1);
    BindThisThread({all.back()});
    bound[0] = Bound();
  }).join();
  EXPECT_EQ(bound[0], std::set<int>{all.back()});
}

TEST(Cores, NoneAndForbiddenOnesChangeNothing) {
  const std::set<int> before = Bound();
  std::thread([&] {
    BindThisThread({});
    EXPECT_EQ(Bound(), before);
    BindThisThread({CPU_SETSIZE - 1});
    if (!before.contains(CPU_SETSIZE - 1)) {
      EXPECT_EQ(Bound(), before);
    }
  }).join();
}

}  // namespace
}  // namespace belfry
