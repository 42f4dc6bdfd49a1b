#include "framework/collective/world.h"

#include <unistd.h>

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "framework/base/host_name.h"
#include "framework/base/status.h"
#include "framework/base/steady_time.h"
#include "framework/collective/mpi/mpi_world.h"
#include "framework/collective/mpi/watchdog.h"
#include "framework/collective/open_world.h"
#include "tests/framework/base/no_threads.h"
#include "tests/framework/collective/fake_mpi.h"
#include "tests/framework/collective/fake_world.h"

namespace belfry {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

std::string Text(const absl::Status& status) { return std::string(status.message()); }

TEST(World, OfOneProcessNeedsNobody) {
  ASSERT_OK_AND_ASSIGN(const auto world, OpenWorld({}, absl::InfinitePast()));
  EXPECT_EQ(world->rank(), 0);
  EXPECT_EQ(world->size(), 1);
  EXPECT_EQ(world->processes()[0].host, HostName());
  ASSERT_OK_AND_ASSIGN(const auto gathered, world->AllGather("mine", absl::InfinitePast()));
  EXPECT_THAT(gathered, ElementsAre("mine"));
  EXPECT_TRUE(world->Close(absl::InfinitePast()).ok());
}

TEST(World, GathersFromAll) {
  for (const int size : {1, 2, 3, 5}) {
    for (const int slowness : {0, 3}) {
      const Ranks ranks{.options = std::vector<FakeMpiOptions>(size, {.slowness = slowness})};
      // The n-th message of rank r; some are empty, and some long.
      const uint32_t seed = TestSeed();
      const auto message = [&](int r, int n) {
        const uint32_t length = n == 7 ? (1 << 20) + r : (seed / (n + 1) + r) % 5;
        return std::string(length, static_cast<char>('a' + (n + r) % 26));
      };
      const auto results = RunRanks(size, ranks, [&](World& world) {
        for (int n = 0; n < 30; ++n) {
          if ((seed >> n & 1) == static_cast<uint32_t>(world.rank() % 2)) absl::SleepFor(absl::Microseconds(200));
          ASSIGN_OR_RETURN(const auto gathered, world.AllGather(message(world.rank(), n), In(absl::Seconds(60))));
          for (int r = 0; r < world.size(); ++r) {
            if (gathered[r] != message(r, n)) return absl::DataLossError(absl::StrCat("message ", n, " of rank ", r));
          }
        }
        return world.Close(In(absl::Seconds(60)));
      });
      for (int r = 0; r < size; ++r)
        EXPECT_TRUE(results[r].ok()) << "rank " << r << " of " << size << ": " << results[r];
    }
  }
}

TEST(World, NoThreadLeftIsAnError) {
  FakeNetwork network(1);
  const NoThreads none;
  const auto world = OpenMpiWorld(std::make_unique<FakeMpi>(network, 0, FakeMpiOptions()), {1, "a test", "fake"}, "1",
                                  In(absl::Seconds(60)));
  EXPECT_EQ(world.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(Text(world.status()), HasSubstr("Cannot start a thread that watches the other processes"));
  const auto watchdog = Watchdog::Start(In(absl::Seconds(60)), "late", 1);
  EXPECT_EQ(watchdog.status().code(), absl::StatusCode::kResourceExhausted);
}

TEST(World, ExchangesWithLessPatienceAreLoggedSooner) {
  const absl::Duration usual = absl::Seconds(60);
  EXPECT_EQ(WarnAfter(usual, absl::Seconds(300)), absl::Seconds(30));
  EXPECT_EQ(WarnAfter(usual, absl::Minutes(20)), usual);
  EXPECT_EQ(WarnAfter(usual, absl::Seconds(20)), absl::Seconds(5));
  EXPECT_EQ(WarnAfter(usual, absl::InfiniteDuration()), usual);
}

TEST(WatchdogDeathTest, SaysForWhatItWaitsBeforeItEndsTheProcess) {
  const auto wait = [](absl::Duration limit, absl::Duration notice_after) {
    const auto watchdog = Watchdog::Start(In(limit), "late", 7, "still waiting", notice_after);
    absl::SleepFor(absl::Seconds(60));
  };
  EXPECT_EXIT(wait(absl::Milliseconds(200), absl::Milliseconds(20)), testing::ExitedWithCode(7), "still waiting\nlate");
  EXPECT_EXIT(wait(absl::Milliseconds(20), absl::Milliseconds(200)), testing::ExitedWithCode(7), "^late");
}

// As those of more than 1 GiB are for MPI.
TEST(World, LongMessagesGoInPieces) {
  constexpr size_t kLongest = 1100;  // above the watcher's notes
  const Ranks ranks{.options = std::vector<FakeMpiOptions>(3, {.longest = kLongest})};
  const auto text = [](int r, size_t size) {
    std::string text(size, ' ');
    for (size_t i = 0; i < size; ++i) text[i] = static_cast<char>((i / 7 + 31 * i + r) % 251);
    return text;
  };
  const auto results = RunRanks(3, ranks, [&](World& world) -> absl::Status {
    for (const size_t size : {kLongest - 1, kLongest, kLongest + 1, 2 * kLongest, 5 * kLongest + 3}) {
      ASSIGN_OR_RETURN(const auto gathered,
                       world.AllGather(text(world.rank(), size + world.rank()), In(absl::Seconds(60))));
      for (int r = 0; r < 3; ++r) {
        if (gathered[r] != text(r, size + r)) return absl::DataLossError(absl::StrCat(size, " gathered from ", r));
      }
      ASSIGN_OR_RETURN(const std::string copied, world.Broadcast(text(world.rank(), size), In(absl::Seconds(60))));
      if (copied != text(0, size)) return absl::DataLossError(absl::StrCat(size, " broadcast"));
    }
    // The same transfers again and again; short ones between the same processes keep their places.
    char short_sent = 0, short_received = 0;
    std::string received(2 * kLongest + 1, ' '), sent = received;
    const int to = (world.rank() + 1) % 3, from = (world.rank() + 2) % 3, tag = world.NewTag();
    Transfers transfers;
    for (const auto& [out, in] : {std::pair(absl::MakeSpan(&short_sent, 1), absl::MakeSpan(&short_received, 1)),
                                  std::pair(absl::MakeSpan(sent), absl::MakeSpan(received)),
                                  std::pair(absl::MakeSpan(&short_sent, 1), absl::MakeSpan(&short_received, 1))}) {
      transfers.Send(to, out);
      transfers.Receive(from, in);
    }
    for (int round = 0; round < 3; ++round) {
      short_sent = static_cast<char>(10 * round + world.rank());
      text(short_sent, sent.size()).copy(sent.data(), sent.size());
      RETURN_IF_ERROR(world.Exchange(tag, transfers, In(absl::Seconds(60)), nullptr));
      if (short_received != 10 * round + from) return absl::DataLossError("the short message");
      if (received != text(short_received, sent.size())) return absl::DataLossError("the long message");
    }
    return world.Close(In(absl::Seconds(60)));
  });
  for (const absl::Status& status : results) EXPECT_TRUE(status.ok()) << status;
}

TEST(World, KnowsItsProcesses) {
  const auto results = RunRanks(3, {}, [](World& world) {
    EXPECT_EQ(world.library(), "Fake MPI 1.0");
    for (int r = 0; r < 3; ++r) {
      EXPECT_EQ(world.processes()[r].host, HostName());
      EXPECT_EQ(world.processes()[r].pid, getpid());
      EXPECT_EQ(world.processes()[r].local_rank, r);
    }
    return absl::OkStatus();
  });
  EXPECT_TRUE(results[1].ok()) << results[1];
  EXPECT_EQ(Describe(2, {"node-b", 97, 0}), "task 2 (node-b, pid 97)");
  EXPECT_EQ(Describe(2, {}), "task 2");
}

TEST(World, AProcessThatDoesNotStartIsNamed) {
  Ranks ranks{.patience = absl::Milliseconds(300)};
  ranks.options.resize(4);
  ranks.options[2].mute = true;
  const auto results = RunRanks(4, ranks, [](World&) { return absl::OkStatus(); });
  for (const int r : {0, 1, 3}) {
    EXPECT_EQ(results[r].code(), absl::StatusCode::kDeadlineExceeded);
    EXPECT_THAT(Text(results[r]), AllOf(HasSubstr("Cannot connect the processes started by a test"),
                                        HasSubstr("no answer before the deadline from task 2:")));
  }
}

TEST(World, AProcessThatFallsSilentIsNamedWithItsHost) {
  const auto results = RunRanks(3, {}, [](World& world) -> absl::Status {
    if (world.rank() == 1) return absl::OkStatus();
    const auto gathered = world.AllGather("here", In(absl::Milliseconds(200)));
    // Nothing can be exchanged after that: the others are no longer at the same place.
    EXPECT_THAT(Text(world.AllGather("again", In(absl::Seconds(60))).status()),
                HasSubstr("no answer before the deadline from task 1"));
    EXPECT_FALSE(world.Close(In(absl::Seconds(60))).ok());
    return gathered.status();
  });
  EXPECT_TRUE(results[1].ok());
  for (const int r : {0, 2}) {
    EXPECT_THAT(Text(results[r]), HasSubstr(absl::StrCat("from task 1 (", HostName(), ", pid ", getpid(), ")")));
  }
}

TEST(World, AnotherNumberOfProcessesThanTheLaunchersIsAnError) {
  FakeNetwork network(1);
  const auto world = OpenMpiWorld(std::make_unique<FakeMpi>(network, 0), {4, "Open MPI (SIZE=4)", "fake"}, "1",
                                  absl::InfiniteFuture());
  EXPECT_EQ(world.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(Text(world.status()), HasSubstr("Fake MPI 1.0 knows of 1 process, but the launcher started 4 according "
                                              "to Open MPI (SIZE=4)"));
}

TEST(World, DifferentBuildsAreAnErrorThatShowsBoth) {
  const auto results = RunRanks(3, {.builds = {"1", "1", "2"}}, [](World&) { return absl::OkStatus(); });
  EXPECT_THAT(Text(results[0]),
              AllOf(HasSubstr("task 0"), HasSubstr("is Belfry 1, but task 2"), HasSubstr("is Belfry 2")));
  EXPECT_THAT(Text(results[2]), AllOf(HasSubstr("is Belfry 2, but task 0"), HasSubstr("is Belfry 1")));
}

// Bytes with tags of their own, in both directions at once, from several threads of each process.
TEST(World, ExchangesWithDifferentTagsDoNotMix) {
  constexpr int kThreads = 3, kRounds = 20;
  const uint32_t seed = TestSeed();
  const auto results = RunRanks(3, {}, [&](World& world) {
    std::vector<int> tags;
    for (int t = 0; t < kThreads; ++t) tags.push_back(world.NewTag());
    std::vector<absl::Status> statuses(kThreads);
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        const size_t size = seed >> (3 * t) & 1023;
        std::vector<std::string> sent(3, std::string(size, ' ')), received = sent;
        Transfers transfers;
        for (int r = 0; r < 3; ++r) {
          if (r == world.rank()) continue;
          transfers.Send(r, sent[r]);
          transfers.Receive(r, absl::MakeSpan(received[r]));
        }
        const auto text = [&](int round, int from, int to) {
          return std::string(size, static_cast<char>(' ' + ((round * 3 + from) * 3 + to + 7 * t) % 90));
        };
        for (int round = 0; round < kRounds && statuses[t].ok(); ++round) {
          for (int r = 0; r < 3; ++r) text(round, world.rank(), r).copy(sent[r].data(), size);
          statuses[t] = world.Exchange(tags[t], transfers, In(absl::Seconds(60)), nullptr);
          for (int r = 0; r < 3 && statuses[t].ok(); ++r) {
            if (r != world.rank() && received[r] != text(round, r, world.rank())) {
              statuses[t] = absl::DataLossError(absl::StrCat("round ", round, " of thread ", t));
            }
          }
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const absl::Status& status : statuses) RETURN_IF_ERROR(status);
    return world.Close(In(absl::Seconds(60)));
  });
  for (const absl::Status& status : results) EXPECT_TRUE(status.ok()) << status;
}

// A process that waits for one that fails learns why, and so does one that comes to wait later.
TEST(World, AFailureReachesTheOthersWithItsText) {
  const auto results = RunRanks(3, {}, [](World& world) -> absl::Status {
    if (world.rank() == 1) {
      absl::SleepFor(absl::Milliseconds(50));
      world.Fail(absl::DataLossError("data_batch_4.bin is too short"));
      return world.AllGather("after", In(absl::Seconds(60))).status();
    }
    if (world.rank() == 2) absl::SleepFor(absl::Milliseconds(300));
    return world.AllGather("here", In(absl::Seconds(60))).status();
  });
  for (const absl::Status& status : results) {
    EXPECT_EQ(status.code(), absl::StatusCode::kCancelled);
    EXPECT_THAT(Text(status), HasSubstr(absl::StrCat("task 1 (", HostName(), ", pid ", getpid(),
                                                     "): data_batch_4.bin is too short")));
  }
}

TEST(World, TheRollCallSaysWhereEachProcessIs) {
  Ranks ranks;
  ranks.options.resize(4);
  const auto results = RunRanks(4, ranks, [](World& world) -> absl::Status {
    world.SetPosition([rank = world.rank()] {
      return rank > 1 ? "" : absl::StrCat("is at line ", rank, rank == 1 ? ":\n    of a list" : "");
    });
    if (world.rank() == 2) {
      absl::SleepFor(absl::Milliseconds(900));
      return absl::OkStatus();
    }
    const absl::Status status = world.AllGather("here", In(absl::Milliseconds(200))).status();
    const std::string roll_call = world.RollCall();
    absl::SleepFor(absl::Milliseconds(700));  // the others may still ask it
    return absl::Status(status.code(), absl::StrCat(status.message(), "\n", roll_call));
  });
  // Task 2, which waits for no other, comes first.
  EXPECT_THAT(Text(results[0]), ContainsRegex("no answer before the deadline from task 2.*\n  task 2 .*  answers\n"
                                              "  task 0 .*  is at line 0, waiting for task 2\n"
                                              "  task 1 .*  is at line 1, waiting for task 2:\n    of a list\n"
                                              "  task 3 .*  waiting for task 2"));
}

TEST(World, ALongWaitIsLoggedByOneProcess) {
  testing::internal::CaptureStdout();
  const auto results = RunRanks(3, {.warn_after = absl::Milliseconds(50)}, [](World& world) -> absl::Status {
    world.SetPosition([rank = world.rank()] { return absl::StrCat("is at line ", rank); });
    if (world.rank() == 2) absl::SleepFor(absl::Milliseconds(700));
    RETURN_IF_ERROR(world.AllGather("here", In(absl::Seconds(60))).status());
    return world.Close(In(absl::Seconds(60)));
  });
  const std::string log = testing::internal::GetCapturedStdout();
  for (const absl::Status& status : results) EXPECT_TRUE(status.ok()) << status;
  EXPECT_THAT(log,
              AllOf(HasSubstr("has been waiting for task 2"), HasSubstr("is at line 1"), HasSubstr("is at line 2")));
  EXPECT_EQ(log.find("has been waiting"), log.rfind("has been waiting")) << log;
}

// Its memory may be freed after that, so MPI must not be called again.
TEST(World, AMessageThatStopsHalfwayIsGivenUp) {
  Ranks ranks;
  ranks.options.resize(3);
  ranks.options[0].halfway = true;
  const auto results = RunRanks(3, ranks, [](World& world) -> absl::Status {
    world.SetPosition([rank = world.rank()] { return absl::StrCat("is at line ", rank); });
    if (world.rank() == 1) {
      absl::SleepFor(absl::Seconds(2));
      return absl::OkStatus();
    }
    if (world.rank() == 2) return world.AllGather("here", In(absl::Seconds(60))).status();
    const int tag = world.NewTag();
    std::string data(2 << 20, ' ');
    Transfers transfers;
    transfers.Receive(1, absl::MakeSpan(data));
    const absl::Status status = world.Exchange(tag, transfers, In(absl::Milliseconds(50)), nullptr);
    world.SetPosition(nullptr);
    const absl::Time begin = SteadyNow();
    const std::string roll_call = world.RollCall();
    world.Fail(status);
    EXPECT_FALSE(world.AllGather("", In(absl::Seconds(60))).ok());
    EXPECT_LT(SteadyNow() - begin, absl::Milliseconds(500));
    return absl::Status(status.code(), absl::StrCat(status.message(), "\n", roll_call));
  });
  EXPECT_EQ(results[0].code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(Text(results[0]), AllOf(HasSubstr("from task 1 ("), HasSubstr("is at line 0"), HasSubstr("is at line 1"),
                                      HasSubstr("is at line 2")));
  EXPECT_EQ(results[2].code(), absl::StatusCode::kCancelled);
  EXPECT_THAT(Text(results[2]), HasSubstr(": no answer before the deadline from task 1 ("));
}

TEST(World, ACancelledExchangeEndsAndNoLongerWaits) {
  const auto results = RunRanks(2, {}, [](World& world) -> absl::Status {
    if (world.rank() == 1) {
      absl::SleepFor(absl::Milliseconds(300));  // it answers a roll call
      return absl::OkStatus();
    }
    const absl::Time begin = SteadyNow();
    char byte;
    Transfers transfers;
    transfers.Receive(1, {&byte, 1});
    const absl::Status status = world.Exchange(world.NewTag(), transfers, absl::InfiniteFuture(),
                                               [&] { return SteadyNow() - begin > absl::Milliseconds(20); });
    EXPECT_THAT(world.RollCall(), Not(HasSubstr("waiting for task")));
    return status;
  });
  EXPECT_EQ(results[0].code(), absl::StatusCode::kCancelled);
}

TEST(World, BroadcastsTheTextOfTaskZero) {
  const auto results = RunRanks(3, {}, [](World& world) -> absl::Status {
    for (const std::string text : {"one", "", "three"}) {
      ASSIGN_OR_RETURN(const std::string got,
                       world.Broadcast(world.rank() == 0 ? text : "of another", In(absl::Seconds(60))));
      if (got != text) return absl::DataLossError(got);
    }
    return absl::OkStatus();
  });
  for (const absl::Status& status : results) EXPECT_TRUE(status.ok()) << status;
}

// The process names the call that failed, whichever it is, and the others end, too.
TEST(World, EveryCallMayFail) {
  const auto use = [](World& world) {
    RETURN_IF_ERROR(world.AllGather("x", In(absl::Seconds(60))).status());
    return world.Close(In(absl::Seconds(60)));
  };
  int failed = 0;
  for (int k = 0; k < 30; ++k) {
    const Ranks ranks{.options = {{.fail_at = k}}, .notice_ends = true};
    const auto results = RunRanks(2, ranks, use);
    if (results[0].ok()) continue;  // it made fewer calls
    ++failed;
    EXPECT_THAT(Text(results[0]), AllOf(HasSubstr("MPI_"), HasSubstr("failed: injected"))) << k;
    if (!results[1].ok()) {
      EXPECT_THAT(Text(results[1]), HasSubstr("process 0 has ended")) << k;
    }
  }
  // Four calls for each of five exchanges, as an empty message is not sent; those of the watcher, and MPI_Finalize.
  EXPECT_EQ(failed, 26);
}

TEST(WorldDeathTest, AnEndOfMpiThatHangsEndsTheProcess) {
  EXPECT_EXIT(
      {
        FakeNetwork network(1);
        auto mpi = std::make_unique<FakeMpi>(network, 0, FakeMpiOptions{.hangs = true});
        const auto world = OpenMpiWorld(std::move(mpi), {1, "a test", "fake"}, "1", absl::InfiniteFuture());
        (*world)->Close(In(absl::Milliseconds(50)), 138).IgnoreError();
      },
      testing::ExitedWithCode(138), "MPI_Finalize of Fake MPI 1.0 did not return");
}

TEST(World, WithoutTheModuleItSaysWhatIsMissing) {
  const auto world = OpenWorld({4, "Open MPI (OMPI_COMM_WORLD_SIZE=4)", "nothing"}, absl::InfiniteFuture());
  EXPECT_EQ(world.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(Text(world.status()), AllOf(HasSubstr("one of 4 processes started by Open MPI (OMPI_COMM_WORLD_SIZE=4)"),
                                          HasSubstr("this Belfry was built or installed without it")));
  EXPECT_THAT(Text(OpenWorld({4, "srun (SLURM_STEP_NUM_TASKS=4)", ""}, absl::InfiniteFuture()).status()),
              HasSubstr("use srun --mpi=pmix"));
}

}  // namespace
}  // namespace belfry
