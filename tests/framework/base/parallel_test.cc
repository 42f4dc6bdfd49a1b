#include "framework/base/parallel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

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

}  // namespace
}  // namespace belfry
