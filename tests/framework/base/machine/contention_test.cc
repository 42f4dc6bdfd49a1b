#include "framework/base/machine/contention.h"

#include <unistd.h>

#include <atomic>
#include <thread>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tests/main/testing.h"

namespace belfry {
namespace {

// Calls Observe(share) until found() is `found`; the time that takes, or a second if it does not happen.
absl::Duration TimeUntil(Contention& contention, bool found, double share) {
  absl::Duration time;
  for (; contention.found() != found && time < absl::Seconds(1); time += Contention::kInterval) {
    contention.Observe(share);
  }
  return time;
}

TEST(Contention, IsFoundBesideBusyProgramsAndEndsWithThem) {
  Contention contention;
  EXPECT_EQ(TimeUntil(contention, true, 0.67), absl::Milliseconds(60));  // two for each core
  EXPECT_EQ(TimeUntil(contention, false, 0.03), absl::Milliseconds(160));
  EXPECT_EQ(TimeUntil(contention, true, 0.5), absl::Milliseconds(60));  // one for each core, soon after
  for (int i = 0; i < 100; ++i) contention.Observe(0.5);
  EXPECT_EQ(TimeUntil(contention, false, 0.03), absl::Milliseconds(300));
  for (int i = 0; i < 100; ++i) contention.Observe(0);
  EXPECT_EQ(TimeUntil(contention, true, 0.3), absl::Milliseconds(180));  // one on two cores
}

// Shares seen on a machine where nothing else was started: turns of daemons.
TEST(Contention, QuietMachinesHaveNone) {
  Contention contention;
  for (int i = 0; i < 20; ++i) {
    for (const double share : {0.003, 0.265, 0.002, 0.37, 0.1, 0.003, 0.007, 0.06, 0.002, 0.002})
      contention.Observe(share);
    EXPECT_FALSE(contention.found());
  }
}

TEST(Contention, BetweenTheLimitsNothingChanges) {
  Contention contention;
  EXPECT_EQ(TimeUntil(contention, true, 0.15), absl::Seconds(1));
  TimeUntil(contention, true, 1);
  EXPECT_EQ(TimeUntil(contention, false, 0.15), absl::Seconds(1));
}

TEST(Contention, EndedThreadsAreLeftOut) {
  pid_t ended = 0;
  std::thread([&ended] { ended = gettid(); }).join();
  Contention contention;
  contention.Add({ended, 0});
  EXPECT_FALSE(contention.Look());
}

// Computes until `end`.
void Compute(const std::atomic<bool>& end) {
  while (!end.load(std::memory_order_relaxed)) {
  }
}

TEST(Contention, LooksAtThreadsThatRan) {
  if (!ReadThreadTimes(gettid()).has_value()) GTEST_SKIP() << "this kernel does not count the times of threads";
  std::atomic<bool> end{false};
  std::atomic<pid_t> id{0};
  std::thread busy([&] {
    id = gettid();
    id.notify_one();
    Compute(end);
    id.wait(gettid());
  });
  id.wait(0);
  Contention contention;
  contention.Add({id});
  absl::SleepFor(Contention::kInterval);
  EXPECT_TRUE(contention.Look());
  end = true;
  ThreadTimes before, after = *ReadThreadTimes(id);  // until it sleeps
  do {
    before = after;
    absl::SleepFor(Contention::kInterval);
    after = *ReadThreadTimes(id);
  } while (after.running != before.running);
  contention.Look();
  EXPECT_FALSE(contention.Look());
  id = 0;
  id.notify_one();
  busy.join();
}

}  // namespace
}  // namespace belfry
