// The averagers `local` and `mpi` among the GPUs of several processes, on fakes of GPUs in a world of threads, against
// those of CPU devices.
#include "framework/collective/staged.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <string>
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
#include "tests/main/seed.h"

namespace belfry {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// Towers of each process.
using StagedLayout = std::vector<int>;

// The data of all towers of a run, on the host.
template <class T>
struct StagedTowers {
  std::vector<std::vector<T>> data;
  std::vector<float> weights;
};

// The towers of one process, dealt in turn to GPUs whose memory the host cannot touch, or to CPU devices.
template <class T>
class StagedProcess {
 public:
  StagedProcess(StagedTowers<T>& towers, int first, int count, int participants, bool gpus, CollectiveKind kind)
      : towers_(towers), first_(first) {
    // The kernels of the local averager use pointers as they are.
    const bool alone = count == static_cast<int>(towers.data.size());
    devices_ = gpus ? OpenFakeGpus(participants, /*tagged=*/!alone)
                    : *DeviceSet::Open(absl::StrCat("cpu:", participants), {.cpu_threads = 1});
    spec_ = {.kind = kind,
             .name = "gradients",
             .dtype = kDTypeOf<T>,
             .elements = static_cast<int64_t>(towers.data[0].size()),
             .first = first,
             .size = static_cast<int>(towers.data.size())};
    for (const int tower : devices_.TowerDevices()) {
      spec_.participants.push_back(&devices_.device(tower));
      streams_.push_back(*devices_.device(tower).NewStream(StreamKind::kCollective));
    }
    for (int t = 0; t < count; ++t) {
      Device& device = *spec_.participants[t % participants];
      data_.push_back(*DeviceMemory::Allocate(device, spec_.elements * sizeof(T)));
      weights_.push_back(*DeviceMemory::Allocate(device, sizeof(float)));
      spec_.ranks.push_back({t % participants, data_.back().data(), static_cast<const float*>(weights_.back().data())});
    }
    Move(/*in=*/true);
  }
  const CollectiveSpec& spec() const { return spec_; }
  Stream& stream(int participant) { return *streams_[participant]; }

  // A thread for each participant, as in Executable; the first error stops the others.
  absl::Status Run(Collective& collective, uint32_t run, absl::Time deadline) {
    std::vector<absl::Status> statuses(streams_.size());
    std::vector<std::thread> threads;
    for (size_t p = 0; p < streams_.size(); ++p) {
      threads.emplace_back([&, p] {
        statuses[p] = collective.Run(static_cast<int>(p), *streams_[p], run, deadline);
        if (!statuses[p].ok()) collective.Cancel();
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const absl::Status& status : statuses) {
      if (!status.ok() && !absl::IsCancelled(status)) return status;
    }
    return statuses[0];
  }
  absl::Status Synchronize() {
    for (auto& stream : streams_) RETURN_IF_ERROR(stream->Synchronize());
    return absl::OkStatus();
  }
  // Copies the towers from the host, or to it.
  void Move(bool in) {
    Device& host = devices_.device(0);
    for (size_t i = 0; i < spec_.ranks.size(); ++i) {
      Device& device = *spec_.participants[spec_.ranks[i].participant];
      Stream& stream = *streams_[spec_.ranks[i].participant];
      std::vector<T>& values = towers_.data[first_ + i];
      const size_t bytes = values.size() * sizeof(T);
      ASSERT_TRUE((in ? stream.Copy(data_[i].data(), device, values.data(), host, bytes)
                      : stream.Copy(values.data(), host, data_[i].data(), device, bytes))
                      .ok());
      if (in) {
        ASSERT_TRUE(stream.Copy(weights_[i].data(), device, &towers_.weights[first_ + i], host, sizeof(float)).ok());
      }
    }
    ASSERT_TRUE(Synchronize().ok());
  }

 private:
  StagedTowers<T>& towers_;
  const int first_;
  DeviceSet devices_;
  std::vector<std::unique_ptr<Stream>> streams_;
  std::vector<DeviceMemory> data_, weights_;  // by tower
  CollectiveSpec spec_;
};

// Runs the collective three times, on the result of the one before, in every process of a layout.
template <class T>
absl::Status RunStaged(const StagedLayout& layout, bool gpus, CollectiveKind kind, WorldSum sum,
                       StagedTowers<T>& towers) {
  const auto results =
      RunRanks(static_cast<int>(layout.size()), {.tell_failures = true}, [&](World& world) -> absl::Status {
        ASSIGN_OR_RETURN(const TowersOfWorld numbers,
                         TowersOfWorld::Gather(world, layout[world.rank()], In(absl::Seconds(60))));
        const int count = layout[world.rank()];
        StagedProcess<T> process(towers, numbers.first[world.rank()], count, (count + 1) / 2, gpus, kind);
        ASSIGN_OR_RETURN(const auto collective, WorldCollectives(world, numbers, sum)(process.spec()));
        for (uint32_t run = 1; run <= 3; ++run) {
          RETURN_IF_ERROR(process.Run(*collective, run, In(absl::Seconds(60))));
        }
        RETURN_IF_ERROR(process.Synchronize());
        process.Move(/*in=*/false);
        return world.Close(In(absl::Seconds(60)));
      });
  for (const absl::Status& status : results) RETURN_IF_ERROR(status);
  return absl::OkStatus();
}

template <class T>
bool StagedBits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

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
      StagedTowers<T> start{std::vector<std::vector<T>>(4, std::vector<T>(elements)), std::vector<float>(4, 2.0f)};
      for (size_t t = 0; t < 4; ++t) {
        const bool empty = mean && !equal && t == idle;
        if (!equal) start.weights[t] = empty ? 0.0f : static_cast<float>(1 + random() % 5);
        for (T& value : start.data[t]) {
          value = empty ? std::numeric_limits<T>::quiet_NaN() : static_cast<T>(normal(random));
        }
      }
      StagedTowers<T> one = start;
      ASSERT_TRUE(RunStaged({4}, /*gpus=*/false, kind, WorldSum::kTowers, one).ok());
      for (const StagedLayout& layout : std::vector<StagedLayout>{{4}, {2, 2}, {1, 1, 1, 1}, {3, 1}}) {
        for (const WorldSum sum : {WorldSum::kTowers, WorldSum::kProcesses}) {
          SCOPED_TRACE(absl::StrCat("towers ", absl::StrJoin(layout, " + "), ", kind ", static_cast<int>(kind), ", ",
                                    elements, " elements, sum ", static_cast<int>(sum)));
          StagedTowers<T> expected = one, actual = start;
          if (sum == WorldSum::kProcesses) {  // whose bits depend on the layout
            expected = start;
            ASSERT_TRUE(RunStaged(layout, /*gpus=*/false, kind, sum, expected).ok());
          }
          const absl::Status status = RunStaged(layout, /*gpus=*/true, kind, sum, actual);
          ASSERT_TRUE(status.ok()) << status;
          for (size_t t = 0; t < 4; ++t) EXPECT_TRUE(StagedBits(expected.data[t], actual.data[t])) << "tower " << t;
        }
      }
    }
  }
}

StagedTowers<float> StagedOnes(int count) {
  return {std::vector<std::vector<float>>(count, std::vector<float>(100, 1.0f)), std::vector<float>(count, 1.0f)};
}

// Two processes, with half of the towers each on as many GPUs. `body` gets the process and its collective.
using Body = std::function<absl::Status(World&, StagedProcess<float>&, Collective&)>;
std::vector<absl::Status> RunTwo(StagedTowers<float>& towers, const Body& body, bool tell_failures = true) {
  const int count = static_cast<int>(towers.data.size()) / 2;
  return RunRanks(2, {.tell_failures = tell_failures}, [&](World& world) -> absl::Status {
    StagedProcess<float> process(towers, world.rank() * count, count, count, /*gpus=*/true, CollectiveKind::kSum);
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
  StagedTowers<float> towers = StagedOnes(4);
  const auto results = RunTwo(towers, [](World& world, StagedProcess<float>& process, Collective& collective) {
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
  StagedTowers<float> towers = StagedOnes(4);
  std::atomic<bool> cancelled{false};
  const auto results = RunTwo(towers, [&](World& world, StagedProcess<float>& process, Collective& collective) {
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
  StagedTowers<float> towers = StagedOnes(4);
  std::atomic<bool> ended{false};
  const auto results = RunTwo(towers, [&](World& world, StagedProcess<float>& process, Collective& collective) {
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
  StagedTowers<float> towers = StagedOnes(2);
  const auto results = RunTwo(towers, [&](World& world, StagedProcess<float>& process, Collective& collective) {
    if (world.rank() == 1) return process.Run(collective, 1, absl::InfiniteFuture());
    LongWork work(process.stream(0));
    return process.Run(collective, 1, In(absl::Milliseconds(100)));
  });
  EXPECT_EQ(results[0].code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(results[0].message(), AllOf(HasSubstr("collective 'gradients'"), HasSubstr("device:GPU:0")));
  EXPECT_EQ(results[1].code(), absl::StatusCode::kCancelled);
  EXPECT_THAT(results[1].message(), AllOf(HasSubstr("task 0"), HasSubstr("device:GPU:0")));
}

TEST(Staged, AProcessThatDoesNotComeIsNamed) {
  StagedTowers<float> towers = StagedOnes(2);
  std::atomic<bool> ended{false};
  const auto results = RunTwo(towers, [&](World& world, StagedProcess<float>& process, Collective& collective) {
    if (world.rank() == 1) {
      while (!ended) absl::SleepFor(absl::Milliseconds(1));
      return absl::OkStatus();
    }
    const absl::Status status = process.Run(collective, 1, In(absl::Milliseconds(100)));
    ended = true;
    return status;
  });
  EXPECT_EQ(results[0].code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(results[0].message(), HasSubstr("collective 'gradients': no answer before the deadline from task 1"));
}

// Data from a GPU that failed must not reach the other processes.
TEST(Staged, AFailedDeviceEndsAll) {
  StagedTowers<float> towers = StagedOnes(4);
  const auto results = RunTwo(towers, [&](World& world, StagedProcess<float>& process, Collective& collective) {
    if (world.rank() == 0) {
      EnqueueOnFakeGpu(process.stream(0), [] { return absl::InternalError("an illegal address"); });
    }
    return process.Run(collective, 1, absl::InfiniteFuture());
  });
  EXPECT_THAT(results[0].message(), HasSubstr("an illegal address"));
  EXPECT_THAT(results[1].message(), AllOf(HasSubstr("task 0"), HasSubstr("an illegal address")));
}

TEST(Staged, WeightsOfZeroAreAnErrorInAllProcesses) {
  StagedTowers<float> towers = StagedOnes(2);
  towers.weights = {0, 0};
  const auto results = RunRanks(2, {}, [&](World& world) -> absl::Status {
    StagedProcess<float> process(towers, world.rank(), 1, 1, /*gpus=*/true, CollectiveKind::kMean);
    ASSIGN_OR_RETURN(const auto collective, WorldCollectives(world, {{0, 1, 2}})(process.spec()));
    return process.Run(*collective, 1, In(absl::Seconds(60)));
  });
  for (const absl::Status& status : results) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr("no tower has an example"));
  }
}

TEST(Staged, CpusAndGpusOfOneProcessAreRefused) {
  StagedTowers<float> towers = StagedOnes(4);
  const auto results = RunRanks(2, {}, [&](World& world) -> absl::Status {
    const int first = 2 * world.rank();
    StagedProcess<float> gpus(towers, first, 2, 2, true, CollectiveKind::kSum);
    StagedProcess<float> cpus(towers, first, 2, 2, false, CollectiveKind::kSum);
    CollectiveSpec mixed = gpus.spec();
    mixed.participants[1] = cpus.spec().participants[1];
    return WorldCollectives(world, {{0, 2, 4}})(mixed).status();
  });
  EXPECT_EQ(results[0].code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(results[0].message(), AllOf(HasSubstr("device:GPU:0"), HasSubstr("device:CPU:1")));
}

}  // namespace
}  // namespace belfry
