#include "framework/base/cores.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <set>
#include <thread>
#include <vector>

#include "framework/base/parallel.h"

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
