#include "framework/base/machine/team_cores.h"

#include <omp.h>
#include <sched.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/base/cores.h"
#include "framework/base/parallel.h"
#include "tests/main/testing.h"

namespace belfry {
namespace {

// The core that each thread of the team runs on.
std::vector<int> CoresOfTeam(int threads) {
  std::vector<int> cores(threads, -1);
  if (threads == 1) return {sched_getcpu()};
#pragma omp parallel num_threads(threads)
  cores[omp_get_thread_num()] = sched_getcpu();
  return cores;
}

TEST(TeamCores, MovesEachThreadToTheNextCoreAndBack) {
  std::vector<int> cores = AvailableCores();
  if (cores.size() < 2) GTEST_SKIP() << "There is one core.";
  cores.resize(2);
  cpu_set_t before, after;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  for (const int threads : {1, 2}) {
    const ScopedParallelThreads team(threads);
    ASSERT_TRUE(StartParallelThreads().ok());
    TeamCores first(cores, threads), second(cores, threads);
    first.Move();
    const std::vector<int> there = CoresOfTeam(threads);
    second.Move();  // from cores that are known
    const std::vector<int> back = CoresOfTeam(threads);
    for (int t = 0; t < threads; ++t) {
      EXPECT_THAT(cores, testing::Contains(there[t]));
      EXPECT_THAT(cores, testing::Contains(back[t]));
      EXPECT_NE(there[t], back[t]);
    }
    const std::string text = absl::StrCat(threads == 1 ? "on core " : "on cores ", absl::StrJoin(there, ", "));
    EXPECT_THAT(second.Text(), testing::StartsWith(text + " and then on core"));
    EXPECT_THAT(second.Text(), testing::EndsWith(absl::StrJoin(back, ", ")));
    second.Restore();
    first.Restore();
    ASSERT_EQ(sched_getaffinity(0, sizeof after, &after), 0);
    EXPECT_TRUE(CPU_EQUAL(&before, &after));
  }
}

TEST(TeamCores, OneCoreIsKept) {
  cpu_set_t before, after;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  TeamCores moved({AvailableCores()[0]}, 1);
  moved.Move();
  ASSERT_EQ(sched_getaffinity(0, sizeof after, &after), 0);
  EXPECT_TRUE(CPU_EQUAL(&before, &after));
  EXPECT_EQ(moved.Text(), "on the same cores");
}

}  // namespace
}  // namespace belfry
