// The simulation itself: virtual threads and clocks, and that it finds what is wrong.
#include <pthread.h>

#include <cerrno>
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "framework/base/mutex.h"
#include "framework/base/steady_time.h"
#include "tests/simulation/check.h"
#include "tests/simulation/simulation_fixture.h"

namespace belfry::simulation {
namespace {

using testing::ContainsRegex;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

class Simulation : public SimulationFixture {};

// Calls `main` in a process; returns how it ended.
End RunAlone(Machine& machine, const std::function<void()>& main) {
  Scheduler scheduler(machine.stacks, /*seed=*/1, /*switch_every=*/0);
  const int process = scheduler.AddProcess(0, main);
  scheduler.Run(1000 * kSecond);
  return scheduler.end(process);
}

TEST_F(Simulation, TimePassesOnlyWhereSomethingWaits) {
  absl::Duration slept, waited;
  const absl::Time begin = SteadyNow();
  EXPECT_EQ(RunAlone(machine_,
                     [&] {
                       const absl::Time start = SteadyNow();
                       absl::SleepFor(absl::Seconds(100));
                       slept = SteadyNow() - start;
                       Mutex mutex;
                       const MutexLock lock(mutex);
                       EXPECT_FALSE(mutex.AwaitUntil(SteadyNow() + absl::Seconds(50), [] { return false; }));
                       waited = SteadyNow() - start - slept;
                     }),
            End::kReturned);
  EXPECT_LT(SteadyNow() - begin, absl::Seconds(10));
  EXPECT_GE(slept, absl::Seconds(100));
  EXPECT_LT(slept, absl::Seconds(100) + absl::Microseconds(1));
  EXPECT_GE(waited, absl::Seconds(50));
  EXPECT_LT(waited, absl::Seconds(50) + absl::Microseconds(1));
}

TEST_F(Simulation, ThreadsWakeEachOther) {
  std::vector<int> order;
  EXPECT_EQ(RunAlone(machine_,
                     [&] {
                       Mutex mutex;
                       int turn = 0;
                       std::vector<std::thread> threads;
                       for (const int number : {2, 0, 1}) {
                         threads.emplace_back([&, number] {
                           const MutexLock lock(mutex);
                           mutex.Await([&] { return turn == number; });
                           order.push_back(number);
                           ++turn;
                           mutex.NotifyAll();
                         });
                       }
                       for (std::thread& thread : threads) thread.join();
                     }),
            End::kReturned);
  EXPECT_THAT(order, ElementsAre(0, 1, 2));
}

TEST_F(Simulation, ALostWakeUpHangs) {
  EXPECT_EQ(RunAlone(machine_,
                     [] {
                       Mutex mutex;
                       bool done = false;
                       std::thread other([&] {
                         absl::SleepFor(absl::Seconds(1));
                         const MutexLock lock(mutex);
                         done = true;  // and no NotifyAll
                       });
                       {
                         const MutexLock lock(mutex);
                         mutex.Await([&] { return done; });
                       }
                       other.join();
                     }),
            End::kNone);
}

TEST_F(Simulation, TwoLocksInOppositeOrdersHangForSomeSeeds) {
  int hangs = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Scheduler scheduler(machine_.stacks, seed, /*switch_every=*/2);
    Mutex a, b;
    const auto lock_both = [](Mutex& first, Mutex& second) {
      for (int i = 0; i < 3; ++i) {
        const MutexLock lock_first(first);
        const MutexLock lock_second(second);
      }
    };
    const int process = scheduler.AddProcess(0, [&] {
      std::thread other(lock_both, std::ref(b), std::ref(a));
      lock_both(a, b);
      other.join();
    });
    scheduler.Run(kSecond);
    hangs += scheduler.end(process) == End::kNone;
  }
  EXPECT_GT(hangs, 0);
  EXPECT_LT(hangs, 20);
}

// Functions of their own, since a report names them.
__attribute__((noinline)) void LockForward(Mutex& first, Mutex& second) {
  const MutexLock lock_first(first);
  const MutexLock lock_second(second);
}
__attribute__((noinline)) void LockBackward(Mutex& first, Mutex& second) {
  const MutexLock lock_second(second);
  const MutexLock lock_first(first);
}

std::vector<std::string> LockCycles(Machine& machine, const std::function<void()>& main) {
  Scheduler scheduler(machine.stacks, /*seed=*/1, /*switch_every=*/0);
  const int process = scheduler.AddProcess(0, main);
  scheduler.Run(1000 * kSecond);
  EXPECT_EQ(scheduler.end(process), End::kReturned);
  return scheduler.lock_order().Cycles();
}

// No thread ever waits for a mutex here.
TEST_F(Simulation, OppositeOrdersOfLocksAreFoundWithoutADeadlock) {
  const std::vector<std::string> cycles = LockCycles(machine_, [] {
    Mutex a, b;
    std::thread(LockForward, std::ref(a), std::ref(b)).join();
    std::thread(LockBackward, std::ref(a), std::ref(b)).join();
  });
  ASSERT_EQ(cycles.size(), 1u);
  EXPECT_THAT(cycles[0], ContainsRegex("mutex [0-9]+, then [0-9]+ in .*LockBackward.*\n"
                                       ".*mutex [0-9]+, then [0-9]+ in .*LockForward"));
}

TEST_F(Simulation, ACycleOfThreeLocksIsFound) {
  const std::vector<std::string> cycles = LockCycles(machine_, [] {
    Mutex a, b, c;
    LockForward(a, b);
    LockForward(b, c);
    LockForward(c, a);
  });
  ASSERT_EQ(cycles.size(), 1u);
}

// 40 layers of two mutexes, each locked before both of the next layer: 2^40 ways lead through them.
TEST_F(Simulation, ManyWaysWithoutACycleTakeLittleTime) {
  const absl::Time begin = SteadyNow();
  const std::vector<std::string> cycles = LockCycles(machine_, [] {
    std::vector<Mutex> mutexes(80);
    for (size_t i = 0; i + 2 < mutexes.size(); ++i) {
      for (const size_t next : {i / 2 * 2 + 2, i / 2 * 2 + 3}) LockForward(mutexes[i], mutexes[next]);
    }
    Mutex first;
    LockForward(first, mutexes[0]);
    LockForward(mutexes[0], first);
  });
  EXPECT_EQ(cycles.size(), 1u);
  EXPECT_LT(SteadyNow() - begin, absl::Seconds(10));
}

TEST_F(Simulation, AMutexThatItsThreadLocksAgainIsFound) {
  Scheduler scheduler(machine_.stacks, /*seed=*/1, /*switch_every=*/0);
  Mutex mutex;
  const int process = scheduler.AddProcess(0, [&] { LockForward(mutex, mutex); });
  scheduler.Run(kSecond);
  EXPECT_EQ(scheduler.end(process), End::kNone);
  EXPECT_THAT(scheduler.lock_order().Cycles(),
              ElementsAre(ContainsRegex("a thread locks a mutex that it holds:\n.*LockForward")));
}

// A try to lock gives what it gives in the C library.
TEST_F(Simulation, ATryToLockDoesNotWait) {
  EXPECT_THAT(LockCycles(machine_,
                         [] {
                           pthread_mutex_t plain = PTHREAD_MUTEX_INITIALIZER;
                           EXPECT_EQ(pthread_mutex_trylock(&plain), 0);
                           EXPECT_EQ(pthread_mutex_trylock(&plain), EBUSY);
                           pthread_mutex_unlock(&plain);
                           EXPECT_EQ(pthread_mutex_trylock(&plain), 0);
                           pthread_mutex_unlock(&plain);
                           std::recursive_mutex recursive;
                           EXPECT_TRUE(recursive.try_lock());
                           EXPECT_TRUE(recursive.try_lock());
                           std::thread([&] { EXPECT_FALSE(recursive.try_lock()); }).join();
                           recursive.unlock();
                           recursive.unlock();
                         }),
              IsEmpty());
}

TEST_F(Simulation, OtherMutexesInTheSamePlaceAreNotTheSame) {
  EXPECT_THAT(LockCycles(machine_,
                         [] {
                           std::optional<Mutex> a(std::in_place), b(std::in_place);
                           LockForward(*a, *b);
                           a.emplace();
                           LockBackward(*a, *b);
                           b.emplace();
                           LockForward(*a, *b);
                         }),
              IsEmpty());
}

TEST_F(Simulation, AStoppedProcessGoesOnLaterAndACrashedOneNever) {
  Scheduler scheduler(machine_.stacks, /*seed=*/1, /*switch_every=*/0);
  std::vector<std::vector<Nanoseconds>> ticks(2);
  for (int process = 0; process < 2; ++process) {
    scheduler.AddProcess(0, [&, process] {
      for (int i = 0; i < 4; ++i) {
        absl::SleepFor(absl::Seconds(1));
        ticks[process].push_back(scheduler.now() / kSecond);
      }
    });
  }
  scheduler.At(2 * kSecond + 1, [&] {
    scheduler.Stop(0, 7 * kSecond);
    scheduler.Crash(1);
  });
  scheduler.Run(100 * kSecond);
  EXPECT_THAT(ticks[0], ElementsAre(1, 2, 7, 8));
  EXPECT_THAT(ticks[1], ElementsAre(1, 2));
  scheduler.Bury();
  EXPECT_EQ(scheduler.end(1), End::kReturned);
}

TEST_F(Simulation, ASeedRepeatsItsRun) {
  std::set<uint64_t> fingerprints;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const Scenario scenario = Draw(seed);
    const Report first = Simulate(scenario, machine_), second = Simulate(scenario, machine_);
    EXPECT_EQ(first.fingerprint, second.fingerprint) << ToString(scenario);
    EXPECT_EQ(first.disturbed.messages, second.disturbed.messages) << ToString(scenario);
    fingerprints.insert(first.fingerprint);
  }
  EXPECT_GT(fingerprints.size(), 15u);
}

// Found faults of the product: those who had said farewell were called silent, and so were those who had ended after
// the error of another.
TEST_F(Simulation, AFaultAtAnyMomentIsBlamedOnThoseWhoseItIs) {
  Scenario scenario{.seed = 7, .ranks = 4, .steps = 3, .elements = 6, .checkpoint_every = 2, .computing = kMillisecond};
  scenario.step_timeout = 90 * kMillisecond;
  scenario.victim = 2;
  scenario.other = 1;
  const Nanoseconds end = LengthOf(scenario);
  constexpr int kMoments = 60;
  for (const Fault fault : {Fault::kCrash, Fault::kStop, Fault::kCut, Fault::kPause}) {
    scenario.fault = fault;
    scenario.lasting = fault == Fault::kPause ? 6 * scenario.timeout : 0;
    for (int moment = 0; moment < kMoments; ++moment) {
      scenario.at = end * moment / kMoments;
      EXPECT_THAT(Simulate(scenario, machine_).problems, IsEmpty()) << ToString(scenario);
    }
  }
}

// Found fault: in a tree of 16, the list that others are told was cut off before the task that all waited for.
TEST_F(Simulation, ACutLinkInATreeIsBlamedByAll) {
  const Scenario scenario = Draw(1'042'486);
  EXPECT_THAT(Simulate(scenario, machine_).problems, IsEmpty()) << ToString(scenario);
}

TEST_F(Simulation, AnErrorBlamesThoseThatSayNothing) {
  constexpr absl::string_view kList =
      "in task 0 (a, pid 1): collective 'x': no answer before the deadline from task 3 (a, pid 4), task 12: stopped";
  EXPECT_THAT(Blamed(kList), ElementsAre(3, 12));
  EXPECT_THAT(Blamed(absl::StrCat(kList, "\nThe tasks:\n  task 3 (a, pid 4)  says nothing: stopped, dead, or cut off\n",
                                  "  task 12  step 3")),
              ElementsAre(3));
  EXPECT_THAT(Blamed("in task 1 (a, pid 1): task 2 (a, pid 3): data_batch_4.bin is too short"), ElementsAre(2));
  EXPECT_THAT(Blamed("another process did not leave"), IsEmpty());
  EXPECT_THAT(Awaited(absl::StrCat(kList, "\nThe tasks:\n  task 2 (a, pid 3)  step 4\n",
                                   "  task 12  step 3, waiting for task 1\n  task 3 (a, pid 4)  waiting for task 12")),
              ElementsAre(Pair(3, 12), Pair(12, 1)));
}

}  // namespace
}  // namespace belfry::simulation
