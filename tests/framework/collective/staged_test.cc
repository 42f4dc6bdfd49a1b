// The averagers `local` and `mpi` among the GPUs of several processes, on fakes of GPUs in a world of threads, against
// those of CPU devices.
#include "framework/collective/staged.h"

#include <atomic>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "framework/base/half.h"
#include "framework/base/status.h"
#include "framework/collective/world_collective.h"
#include "tests/fake_gpu/fake_gpu.h"
#include "tests/framework/collective/fake_world.h"
#include "tests/framework/collective/process_towers.h"

namespace belfry {
namespace {

using testing::AllOf;
using testing::HasSubstr;

template <class T>
class StagedTest : public testing::Test {};
using StagedDTypes = testing::Types<float, double, Half, BFloat16>;
TYPED_TEST_SUITE(StagedTest, StagedDTypes);

// With equal weights and others; one tower of a mean has no example, and NaN.
TYPED_TEST(StagedTest, EveryLayoutHasTheBitsOfCpus) {
  using T = TypeParam;
  std::mt19937& random = TestRandom();
  std::normal_distribution<float> normal;
  for (const CollectiveKind kind : {CollectiveKind::kMean, CollectiveKind::kSum, CollectiveKind::kBroadcast}) {
    for (const int64_t elements : {int64_t{0}, int64_t{3}, static_cast<int64_t>(random() % 3000)}) {
      const bool mean = kind == CollectiveKind::kMean, equal = random() % 2 == 0;
      const size_t idle = random() % 4;
      HostTowers<T> start{std::vector<std::vector<T>>(4, std::vector<T>(elements)), std::vector<float>(4, 2.0f)};
      for (size_t t = 0; t < 4; ++t) {
        const bool empty = mean && !equal && t == idle;
        if (!equal) start.weights[t] = empty ? 0.0f : static_cast<float>(1 + random() % 5);
        for (T& value : start.data[t]) {
          value = empty ? std::numeric_limits<T>::quiet_NaN() : static_cast<T>(normal(random));
        }
      }
      HostTowers<T> one = start;
      ASSERT_TRUE(RunLayout({4}, kind, one).ok());
      for (const Layout& layout : std::vector<Layout>{{4}, {2, 2}, {1, 1, 1, 1}, {3, 1}}) {
        for (const WorldSum sum : {WorldSum::kTowers, WorldSum::kProcesses}) {
          SCOPED_TRACE(absl::StrCat("towers ", absl::StrJoin(layout, " + "), ", kind ", static_cast<int>(kind), ", ",
                                    elements, " elements, sum ", static_cast<int>(sum)));
          HostTowers<T> expected = one, actual = start;
          if (sum == WorldSum::kProcesses) {  // whose bits depend on the layout
            expected = start;
            ASSERT_TRUE(RunLayout(layout, kind, expected, {.sum = sum}).ok());
          }
          const absl::Status status =
              RunLayout(layout, kind, actual, {.ranks = {.tell_failures = true}, .sum = sum, .gpus = true});
          ASSERT_TRUE(status.ok()) << status;
          for (size_t t = 0; t < 4; ++t) EXPECT_TRUE(SameBits(expected.data[t], actual.data[t])) << "tower " << t;
        }
      }
    }
  }
}

HostTowers<float> StagedOnes(int count) {
  return {std::vector<std::vector<float>>(count, std::vector<float>(100, 1.0f)), std::vector<float>(count, 1.0f)};
}

// Two processes, with half of the towers each on as many GPUs. `body` gets the process and its collective.
using Body = std::function<absl::Status(World&, ProcessTowers<float>&, Collective&)>;
std::vector<absl::Status> RunTwo(HostTowers<float>& towers, const Body& body, bool tell_failures = true) {
  const int count = static_cast<int>(towers.data.size()) / 2;
  return RunRanks(2, {.tell_failures = tell_failures}, [&](World& world) -> absl::Status {
    ProcessTowers<float> process(towers, world.rank() * count, count, count, CollectiveKind::kSum, /*gpus=*/true);
    ASSIGN_OR_RETURN(const auto collective, WorldCollectives(world, {{0, count, 2 * count}})(process.spec()));
    absl::Status status = body(world, process, *collective);
    status.Update(process.Synchronize());
    return status;
  });
}

// Work of a GPU that lasts until it is told to end, as a kernel before the collective may.
class LongWork {
 public:
  explicit LongWork(Stream& stream) : stream_(stream) {
    EnqueueOnFakeGpu(stream, [this] {
      while (!end_) absl::SleepFor(absl::Milliseconds(1));
      return absl::OkStatus();
    });
  }
  ~LongWork() { End(); }
  void End() {
    end_ = true;
    EXPECT_TRUE(stream_.Synchronize().ok());
  }

 private:
  Stream& stream_;
  std::atomic<bool> end_{false};
};

TEST(Staged, RunsDoNotMix) {
  HostTowers<float> towers = StagedOnes(4);
  const auto results = RunTwo(towers, [](World& world, ProcessTowers<float>& process, Collective& collective) {
    // Runs are enqueued one after the other, while copies of the last one are under way.
    for (uint32_t run = 1; run <= 20; ++run) {
      RETURN_IF_ERROR(process.Run(collective, run, In(absl::Seconds(60))));
    }
    EXPECT_FALSE(collective.CanCapture());
    RETURN_IF_ERROR(process.Synchronize());
    process.Move(/*in=*/false);
    return world.Close(In(absl::Seconds(60)));
  });
  for (const absl::Status& status : results) EXPECT_TRUE(status.ok()) << status;
  for (const auto& values : towers.data) {
    for (const float value : values) ASSERT_EQ(value, std::pow(4.0f, 20.0f));
  }
}

TEST(Staged, ACancelEndsTheWaitForTheDevice) {
  HostTowers<float> towers = StagedOnes(4);
  std::atomic<bool> cancelled{false};
  const auto results = RunTwo(towers, [&](World& world, ProcessTowers<float>& process, Collective& collective) {
    uint32_t run = 1;
    if (world.rank() == 0) {
      LongWork work(process.stream(1));
      std::thread canceller([&] {
        absl::SleepFor(absl::Milliseconds(50));
        collective.Cancel();
      });
      EXPECT_TRUE(absl::IsCancelled(process.Run(collective, run, absl::InfiniteFuture())));
      canceller.join();
      work.End();
      RETURN_IF_ERROR(process.Synchronize());
      collective.Reset(run++);
      cancelled = true;
    } else {
      while (!cancelled) absl::SleepFor(absl::Milliseconds(1));
    }
    // Nothing was exchanged, so all can go on.
    RETURN_IF_ERROR(process.Run(collective, run, In(absl::Seconds(60))));
    RETURN_IF_ERROR(process.Synchronize());
    process.Move(/*in=*/false);
    return world.Close(In(absl::Seconds(60)));
  });
  for (const absl::Status& status : results) EXPECT_TRUE(status.ok()) << status;
  for (const auto& values : towers.data) EXPECT_EQ(values[99], 4);
}

TEST(Staged, ACancelEndsTheWaitForAnotherProcess) {
  HostTowers<float> towers = StagedOnes(4);
  std::atomic<bool> ended{false};
  const auto results = RunTwo(towers, [&](World& world, ProcessTowers<float>& process, Collective& collective) {
    if (world.rank() == 1) {
      while (!ended) absl::SleepFor(absl::Milliseconds(1));
      return absl::OkStatus();
    }
    std::thread canceller([&] {
      absl::SleepFor(absl::Milliseconds(50));
      collective.Cancel();
    });
    const absl::Status status = process.Run(collective, 1, absl::InfiniteFuture());
    canceller.join();
    ended = true;
    return status;
  });
  EXPECT_EQ(results[0].code(), absl::StatusCode::kCancelled);
}

TEST(Staged, ADeviceThatDoesNotComeMeetsTheDeadline) {
  HostTowers<float> towers = StagedOnes(2);
  const auto results = RunTwo(towers, [&](World& world, ProcessTowers<float>& process, Collective& collective) {
    if (world.rank() == 1) return process.Run(collective, 1, absl::InfiniteFuture());
    LongWork work(process.stream(0));
    return process.Run(collective, 1, In(absl::Milliseconds(100)));
  });
  EXPECT_EQ(results[0].code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(results[0].message(), AllOf(HasSubstr("collective 'test'"), HasSubstr("device:GPU:0")));
  EXPECT_EQ(results[1].code(), absl::StatusCode::kCancelled);
  EXPECT_THAT(results[1].message(), AllOf(HasSubstr("task 0"), HasSubstr("device:GPU:0")));
}

TEST(Staged, AProcessThatDoesNotComeIsNamed) {
  HostTowers<float> towers = StagedOnes(2);
  std::atomic<bool> ended{false};
  const auto results = RunTwo(towers, [&](World& world, ProcessTowers<float>& process, Collective& collective) {
    if (world.rank() == 1) {
      while (!ended) absl::SleepFor(absl::Milliseconds(1));
      return absl::OkStatus();
    }
    const absl::Status status = process.Run(collective, 1, In(absl::Milliseconds(100)));
    ended = true;
    return status;
  });
  EXPECT_EQ(results[0].code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(results[0].message(), HasSubstr("collective 'test': no answer before the deadline from task 1"));
}

// Data from a GPU that failed must not reach the other processes.
TEST(Staged, AFailedDeviceEndsAll) {
  HostTowers<float> towers = StagedOnes(4);
  const auto results = RunTwo(towers, [&](World& world, ProcessTowers<float>& process, Collective& collective) {
    if (world.rank() == 0) {
      EnqueueOnFakeGpu(process.stream(0), [] { return absl::InternalError("an illegal address"); });
    }
    return process.Run(collective, 1, absl::InfiniteFuture());
  });
  EXPECT_THAT(results[0].message(), HasSubstr("an illegal address"));
  EXPECT_THAT(results[1].message(), AllOf(HasSubstr("task 0"), HasSubstr("an illegal address")));
}

TEST(Staged, WeightsOfZeroAreAnErrorInAllProcesses) {
  HostTowers<float> towers = StagedOnes(2);
  towers.weights = {0, 0};
  const auto results = RunRanks(2, {}, [&](World& world) -> absl::Status {
    ProcessTowers<float> process(towers, world.rank(), 1, 1, CollectiveKind::kMean, /*gpus=*/true);
    ASSIGN_OR_RETURN(const auto collective, WorldCollectives(world, {{0, 1, 2}})(process.spec()));
    return process.Run(*collective, 1, In(absl::Seconds(60)));
  });
  for (const absl::Status& status : results) {
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no tower has an example")));
  }
}

TEST(Staged, CpusAndGpusOfOneProcessAreRefused) {
  HostTowers<float> towers = StagedOnes(4);
  const auto results = RunRanks(2, {}, [&](World& world) -> absl::Status {
    const int first = 2 * world.rank();
    ProcessTowers<float> gpus(towers, first, 2, 2, CollectiveKind::kSum, /*gpus=*/true);
    ProcessTowers<float> cpus(towers, first, 2, 2, CollectiveKind::kSum);
    CollectiveSpec mixed = gpus.spec();
    mixed.participants[1] = cpus.spec().participants[1];
    return WorldCollectives(world, {{0, 2, 4}})(mixed).status();
  });
  EXPECT_EQ(results[0].code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(results[0].message(), AllOf(HasSubstr("device:GPU:0"), HasSubstr("device:CPU:1")));
}

}  // namespace
}  // namespace belfry
