#include "framework/base/machine/team.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "framework/base/parallel.h"
#include "tests/framework/base/no_threads.h"

namespace belfry {
namespace {

// The sizes of the teams that the members of one were told.
std::vector<int> SizesByRank(int threads) {
  std::vector<std::atomic<int>> sizes(16);
  RunTeam(threads, [&](const TeamMember& member) { sizes[static_cast<size_t>(member.rank())] += member.size(); });
  std::vector<int> told;
  for (const auto& size : sizes) {
    if (size != 0) told.push_back(size);
  }
  return told;
}

TEST(Team, HasAMemberForEachOfTheThreadsThatThereAre) {
  for (const int available : {1, 2, 3, 5}) {
    const ScopedParallelThreads scoped(available);
    for (const int threads : {1, 2, 4, 5, 9}) {
      const auto size = static_cast<size_t>(std::min(threads, available));
      EXPECT_EQ(SizesByRank(threads), std::vector<int>(size, static_cast<int>(size)));
    }
  }
}

TEST(Team, MembersSeeWhatOthersWroteBeforeTheyMet) {
  for (const int threads : {1, 2, 4}) {
    const ScopedParallelThreads scoped(threads);
    constexpr int kSteps = 2000;
    std::vector<int> written(static_cast<size_t>(threads));  // not atomic: meeting is what orders
    std::atomic<int> wrong{0};
    RunTeam(threads, [&](const TeamMember& member) {
      for (int step = 1; step <= kSteps; ++step) {
        written[static_cast<size_t>(member.rank())] = step;
        member.Meet();
        for (const int each : written) wrong += each != step ? 1 : 0;
        member.Meet();
      }
    });
    EXPECT_EQ(wrong, 0) << threads;
  }
}

TEST(Team, IsTheCallingThreadWithinAParallelLoop) {
  const ScopedParallelThreads scoped(2);
  std::atomic<int> members{0};
  ParallelFor(2, 1e6, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) RunTeam(2, [&](const TeamMember& member) { members += member.size(); });
  });
  EXPECT_EQ(members, 2);
}

TEST(Team, IsTheCallingThreadIfTheSystemRefusesThreads) {
  std::vector<int> sizes;
  std::thread([&] {
    const ScopedParallelThreads scoped(7);
    const NoThreads no_threads;
    sizes = SizesByRank(7);
  }).join();
  EXPECT_EQ(sizes, std::vector<int>{1});
}

}  // namespace
}  // namespace belfry
