#include "framework/base/thread.h"

#include <sys/resource.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>

namespace belfry {
namespace {

TEST(Thread, Runs) {
  std::atomic<int> ran{0};
  auto thread = StartThread("for a test", [&] { ran = 7; });
  ASSERT_TRUE(thread.ok()) << thread.status();
  thread->join();
  EXPECT_EQ(ran, 7);
  EXPECT_EQ(TryThreads(0), absl::OkStatus());
  EXPECT_EQ(TryThreads(3), absl::OkStatus());
}

// Their stacks need more than the process may have; a limit on threads would not concern root.
TEST(Thread, NoneLeftIsAnError) {
  const auto limited = [] {
    const rlimit limit{.rlim_cur = 1 << 20, .rlim_max = 1 << 20};
    if (setrlimit(RLIMIT_AS, &limit) != 0) std::_Exit(2);
    const absl::Status status = TryThreads(64);
    const bool named = status.message().find("Cannot start a thread for computing, of 64") != std::string::npos;
    std::_Exit(absl::IsResourceExhausted(status) && named ? 0 : 1);
  };
  EXPECT_EXIT(limited(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace belfry
