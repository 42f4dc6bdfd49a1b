#include "framework/base/parallel.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "tests/main/testing.h"

namespace belfry {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

constexpr double kHeavy = 1e6;  // large enough for a thread per item

std::vector<std::pair<int64_t, int64_t>> Ranges(int64_t n, double cost) {
  std::mutex mutex;
  std::vector<std::pair<int64_t, int64_t>> ranges;
  ParallelFor(n, cost, [&](int64_t begin, int64_t end) {
    const std::lock_guard<std::mutex> lock(mutex);
    ranges.emplace_back(begin, end);
  });
  std::sort(ranges.begin(), ranges.end());
  return ranges;
}

TEST(Parallel, RangesCoverEveryItemOnce) {
  for (int threads : {1, 2, 3, 7}) {
    const ScopedParallelThreads scoped(threads);
    for (int64_t n : {1, 2, 3, 5, 100, 1001}) {
      for (double cost : {0.0, 1.0, 300.0, kHeavy}) {
        int64_t next = 0;
        const auto ranges = Ranges(n, cost);
        for (const auto& [begin, end] : ranges) {
          EXPECT_EQ(begin, next);
          EXPECT_LT(begin, end);
          next = end;
        }
        EXPECT_EQ(next, n);
        EXPECT_LE(static_cast<int>(ranges.size()), threads);
        EXPECT_EQ(ranges, Ranges(n, cost));
      }
    }
  }
}

TEST(Parallel, NothingToDoCallsNothing) {
  EXPECT_THAT(Ranges(0, kHeavy), IsEmpty());
  EXPECT_THAT(Ranges(-3, kHeavy), IsEmpty());
}

TEST(Parallel, HeavyWorkIsSplitEvenlyAndLightWorkStaysOnTheCaller) {
  const ScopedParallelThreads scoped(2);
  EXPECT_THAT(Ranges(10, kHeavy), ElementsAre(Pair(0, 5), Pair(5, 10)));
  EXPECT_THAT(Ranges(1, kHeavy), ElementsAre(Pair(0, 1)));
  const std::thread::id caller = std::this_thread::get_id();
  int calls = 0;
  ParallelFor(100, 1, [&](int64_t begin, int64_t end) {
    ++calls;
    EXPECT_EQ(begin, 0);
    EXPECT_EQ(end, 100);
    EXPECT_EQ(std::this_thread::get_id(), caller);
  });
  EXPECT_EQ(calls, 1);
}

TEST(Parallel, ALoopInsideALoopIsWholeToo) {
  const ScopedParallelThreads scoped(2);
  std::vector<int> visits(40);
  ParallelFor(4, kHeavy, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      ParallelFor(10, kHeavy, [&](int64_t b, int64_t e) {
        for (int64_t j = b; j < e; ++j) ++visits[i * 10 + j];
      });
    }
  });
  EXPECT_EQ(visits, std::vector<int>(40, 1));
}

TEST(Parallel, TheThreadCountIsTheCallersOwn) {
  const int before = ParallelThreads();
  {
    const ScopedParallelThreads outer(3);
    EXPECT_EQ(ParallelThreads(), 3);
    {
      const ScopedParallelThreads inner(1);
      EXPECT_EQ(ParallelThreads(), 1);
      std::thread([&] {
        const ScopedParallelThreads other(5);
        EXPECT_EQ(ParallelThreads(), 5);
      }).join();
      EXPECT_EQ(ParallelThreads(), 1);
    }
    EXPECT_EQ(ParallelThreads(), 3);
  }
  EXPECT_EQ(ParallelThreads(), before);
}

// The kernel's numbers of the threads that run `items` heavy items.
std::set<pid_t> ThreadsOf(int64_t items) {
  std::mutex mutex;
  std::set<pid_t> threads;
  ParallelFor(items, kHeavy, [&](int64_t, int64_t) {
    const std::lock_guard<std::mutex> lock(mutex);
    threads.insert(gettid());
  });
  return threads;
}

// libgomp ends the threads that a smaller team does not need.
TEST(Parallel, ASmallLoopEndsNoThreads) {
  std::thread([] {
    const ScopedParallelThreads scoped(4);
    const std::set<pid_t> before = ThreadsOf(4);
    EXPECT_EQ(before.size(), 4);
    EXPECT_EQ(ThreadsOf(2).size(), 2);
    EXPECT_EQ(ThreadsOf(4), before);
  }).join();
}

// Lets the system refuse the calling thread any more. Of root, the system limits no threads.
void RefuseThreads() {
  const rlimit limit{.rlim_cur = 1, .rlim_max = 1};
  if (geteuid() == 0 && syscall(SYS_setresuid, 65534, 65534, 65534) != 0) std::_Exit(2);
  if (setrlimit(RLIMIT_NPROC, &limit) != 0) std::_Exit(3);
}

// Runs `body` on a new thread of a new process, whose exit status is 0 if it returns true.
void RunApart(bool (*body)()) {
  std::thread([body] { std::_Exit(body() ? 0 : 1); }).join();
}

TEST(Parallel, ThreadsAreStartedBeforeTheyAreNeeded) {
  const auto body = [] {
    const ScopedParallelThreads scoped(3);
    const bool started = StartParallelThreads().ok();
    RefuseThreads();
    return started && StartParallelThreads().ok() && ThreadsOf(3).size() == 3;
  };
  EXPECT_EXIT(RunApart(body), testing::ExitedWithCode(0), "");
}

// OpenMP would end the program.
TEST(Parallel, WithoutThreadsLoopsRunOnTheCaller) {
  const auto body = [] {
    RefuseThreads();
    const ScopedParallelThreads scoped(4);
    const auto ranges = Ranges(8, kHeavy);
    return absl::IsResourceExhausted(StartParallelThreads()) && ranges.size() == 4 && ThreadsOf(4).size() == 1 &&
           ranges.back() == std::pair<int64_t, int64_t>(6, 8);
  };
  EXPECT_EXIT(RunApart(body), testing::ExitedWithCode(0), "");
}

// fork copies the calling thread only, not its team.
TEST(Parallel, AfterForkLoopsEnd) {
  const auto body = [] {
    const ScopedParallelThreads scoped(3);
    if (ThreadsOf(3).size() != 3) return false;
    const pid_t child = fork();
    if (child == 0) {
      const bool alone = ThreadsOf(3).size() == 1 && absl::IsFailedPrecondition(StartParallelThreads());
      bool anew = false;
      std::thread([&anew] {
        const ScopedParallelThreads own(3);
        anew = ThreadsOf(3).size() == 3;
      }).join();
      std::_Exit(alone && anew ? 0 : 1);
    }
    int status = 0;
    return waitpid(child, &status, 0) == child && status == 0 && ThreadsOf(3).size() == 3;
  };
  EXPECT_EXIT(RunApart(body), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace belfry
