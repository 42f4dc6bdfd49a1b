#include "framework/base/machine/team_cores.h"

#include <gtest/gtest.h>
#include <omp.h>
#include <sched.h>

#include <vector>

#include "framework/base/cores.h"
#include "framework/base/parallel.h"

namespace belfry {
namespace {

// By thread of the team: the core that it runs on.
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
    TeamCores moved(cores, threads);
    for (const bool away : {true, false, true}) {
      moved.Move(away);
      const std::vector<int> expected = away ? std::vector{cores[1], cores[0]} : cores;
      const std::vector<int> now = CoresOfTeam(threads);
      for (int t = 0; t < threads; ++t) EXPECT_EQ(now[t], expected[t]);
    }
    moved.Restore();
    ASSERT_EQ(sched_getaffinity(0, sizeof after, &after), 0);
    EXPECT_TRUE(CPU_EQUAL(&before, &after));
  }
  EXPECT_EQ(TeamCores({4, 5, 6}, 2).Text(false), "cores 4, 5");
  EXPECT_EQ(TeamCores({4, 5, 6}, 1).Text(false), "core 4");
}

TEST(TeamCores, OneCoreIsKept) {
  cpu_set_t before, after;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  TeamCores moved({AvailableCores()[0]}, 1);
  moved.Move(true);
  ASSERT_EQ(sched_getaffinity(0, sizeof after, &after), 0);
  EXPECT_TRUE(CPU_EQUAL(&before, &after));
  EXPECT_EQ(moved.Text(true), "the same cores");
}

}  // namespace
}  // namespace belfry
