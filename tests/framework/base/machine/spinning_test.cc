#include "framework/base/machine/spinning.h"

#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cstdlib>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "framework/base/machine/contention.h"
#include "framework/base/parallel.h"
#include "framework/base/steady_time.h"
#include "tests/main/testing.h"

extern "C" [[gnu::weak]] void kmp_set_blocktime(int milliseconds);

namespace belfry {
namespace {

constexpr double kHeavy = 1e6;  // of an item: large enough for a thread per item

// Processes that compute until the object ends, two for each core.
class BusyProcesses {
 public:
  BusyProcesses() {
    const unsigned count = 2 * std::thread::hardware_concurrency();
    const pid_t parent = getpid();
    for (unsigned i = 0; i < count; ++i) {
      const pid_t child = fork();
      if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        while (getppid() == parent) {
        }
        _exit(0);
      }
      children_.push_back(child);
    }
  }
  ~BusyProcesses() { End(); }
  void End() {
    for (const pid_t child : children_) {
      if (child <= 0) continue;
      kill(child, SIGKILL);
      waitpid(child, nullptr, 0);
    }
    children_.clear();
  }

 private:
  std::vector<pid_t> children_;
};

// A team of two threads.
class Team {
 public:
  Team() {
    Loop();
    EXPECT_NE(worker_, pthread_t{});
  }

  // Runs loops for this long.
  void RunFor(absl::Duration time) {
    for (const absl::Time end = SteadyNow() + time; SteadyNow() < end;) Loop();
  }

  // Processor time that the other thread uses after a loop. libgomp's threads end their spinning, 3 ms of processor
  // time, in the meantime, also if they have only a third of a core.
  absl::Duration SpinningTime() {
    Loop();
    const absl::Duration before = WorkerTime();
    absl::SleepFor(absl::Milliseconds(50));
    return WorkerTime() - before;
  }

 private:
  void Loop() {
    const pthread_t caller = pthread_self();
    ParallelFor(2, kHeavy, [&](int64_t, int64_t) {
      if (pthread_self() != caller) worker_ = pthread_self();
      for (const absl::Time end = SteadyNow() + absl::Microseconds(50); SteadyNow() < end;) {
      }
    });
  }
  absl::Duration WorkerTime() const {
    clockid_t clock{};
    timespec time{};
    EXPECT_EQ(pthread_getcpuclockid(worker_, &clock), 0);
    EXPECT_EQ(clock_gettime(clock, &time), 0);
    return absl::DurationFromTimespec(time);
  }

  const ScopedParallelThreads threads_{2};
  pthread_t worker_{};
};

// True if SpinningTime comes to be below (or not below) `limit` three times in a row.
bool Becomes(Team& team, bool below, absl::Duration limit) {
  int times = 0;
  for (const absl::Time give_up = SteadyNow() + absl::Seconds(20); times < 3 && SteadyNow() < give_up;) {
    team.RunFor(absl::Milliseconds(100));
    times = (team.SpinningTime() < limit) == below ? times + 1 : 0;
  }
  return times == 3;
}

TEST(Spinning, ThreadsSleepBesideBusyProcessesAndSpinWhenTheseEnd) {
  if (std::getenv("OMP_WAIT_POLICY") != nullptr || std::getenv("GOMP_SPINCOUNT") != nullptr) {
    GTEST_SKIP() << "the environment says how long threads spin";
  }
  BusyProcesses busy;
  Team team;
  EXPECT_TRUE(Becomes(team, true, absl::Microseconds(500)));
  EXPECT_EQ(CoresAreShared(), kmp_set_blocktime == nullptr && ReadThreadTimes(gettid()).has_value());
  busy.End();
  if (kmp_set_blocktime != nullptr) return;            // threads of LLVM's OpenMP never spin
  if (!ReadThreadTimes(gettid()).has_value()) return;  // where the kernel does not count, they never do
  if (Becomes(team, false, absl::Milliseconds(1))) return;
  const ThreadTimes before = ReadThreadTimes(gettid()).value_or(ThreadTimes{});
  team.RunFor(absl::Milliseconds(200));
  const ThreadTimes after = ReadThreadTimes(gettid()).value_or(ThreadTimes{});
  // Other programs of this machine may hold its cores.
  EXPECT_GT(after.waiting - before.waiting, (after.running - before.running) / 9);
}

}  // namespace
}  // namespace belfry
