#include "framework/base/cores.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <set>
#include <thread>

namespace belfry {
namespace {

using ::testing::UnorderedElementsAreArray;

// What the calling thread may run on.
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
