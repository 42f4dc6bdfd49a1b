#include "framework/base/thread.h"

#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <thread>

#include "tests/main/testing.h"

namespace belfry {
namespace {

// Returns the calling thread's time slice in ns, from sched_getattr(2).
uint64_t Slice() {
  struct {
    uint64_t before[3], runtime, after[2];
  } attributes = {};
  EXPECT_EQ(syscall(SYS_sched_getattr, 0, &attributes, sizeof(attributes), 0), 0);
  return attributes.runtime;
}

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
    void* volatile room = std::malloc(64 << 10);  // on the heap, for the text
    std::free(room);
    const rlimit limit{.rlim_cur = 1 << 20, .rlim_max = 1 << 20};
    if (setrlimit(RLIMIT_AS, &limit) != 0) std::_Exit(2);
    const absl::Status status = TryThreads(64);
    const bool named = status.message().find("Cannot start a thread for computing, of 64") != std::string::npos;
    std::_Exit(absl::IsResourceExhausted(status) && named ? 0 : 1);
  };
  EXPECT_EXIT(limited(), testing::ExitedWithCode(0), "");
}

TEST(Thread, TimeSliceIsThatOfTheCallingThread) {
  const uint64_t before = Slice();
  uint64_t own = 0;
  std::thread([&] {
    UseShortTimeSlices();
    own = Slice();
    EXPECT_EQ(prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0), 1000);
  }).join();
  EXPECT_THAT(own, testing::AnyOf(100'000, before)) << "Linux before 6.12 has one slice for all";
  EXPECT_EQ(Slice(), before);
}

}  // namespace
}  // namespace belfry
