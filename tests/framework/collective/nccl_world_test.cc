// The averager `nccl` among the GPUs of several processes, on test doubles of NCCL and of GPUs in a world of threads.
#include <atomic>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "framework/base/half.h"
#include "framework/base/status.h"
#include "framework/base/steady_time.h"
#include "framework/collective/nccl.h"
#include "tests/fake_gpu/fake_gpu.h"
#include "tests/framework/collective/fake_nccl.h"
#include "tests/framework/collective/fake_world.h"
#include "tests/framework/collective/meeting.h"

namespace belfry {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

// Towers of each process.
using Counts = std::vector<int>;

constexpr NcclOptions kPatient = {
    .meet_timeout = absl::Seconds(20), .init_timeout = absl::Seconds(20), .drain_timeout = absl::Milliseconds(300)};

// The data of all towers of a run.
template <class T>
struct TowerData {
  std::vector<std::vector<T>> data;
  std::vector<float> weights;
};

// The towers of one process, each on a GPU, and collectives among them and the others. The towers' data is host memory,
// which the fakes use directly.
template <class T>
class Process {
 public:
  Process(World& world, const Counts& layout, TowerData<T>& towers, std::shared_ptr<NcclApi> nccl,
          const NcclOptions& options = kPatient)
      : world_(world), towers_(towers) {
    TowersOfWorld numbers{{0}};
    for (const int count : layout) numbers.first.push_back(numbers.first.back() + count);
    first_ = numbers.first[world.rank()];
    count_ = layout[world.rank()];
    devices_ = OpenFakeGpus(count_, /*tagged=*/false);
    for (const int tower : devices_.TowerDevices()) {
      gpus_.push_back(&devices_.device(tower));
      streams_.push_back(*gpus_.back()->NewStream(StreamKind::kCollective));
    }
    all_ = std::make_unique<NcclCollectives>(std::move(nccl), world, numbers, options);
  }
  ~Process() {
    for (auto& stream : streams_) stream->Synchronize().IgnoreError();
  }

  CollectiveSpec Spec(CollectiveKind kind) {
    CollectiveSpec spec{.kind = kind,
                        .name = "gradients",
                        .dtype = kDTypeOf<T>,
                        .elements = static_cast<int64_t>(towers_.data[0].size()),
                        .participants = gpus_,
                        .first = first_,
                        .size = static_cast<int>(towers_.data.size())};
    for (int i = 0; i < count_; ++i) {
      spec.ranks.push_back({i, towers_.data[first_ + i].data(), &towers_.weights[first_ + i]});
    }
    return spec;
  }
  NcclCollectives& all() { return *all_; }
  absl::Status Make(CollectiveKind kind = CollectiveKind::kMean) {
    ASSIGN_OR_RETURN(collective_, all_->Make(Spec(kind)));
    return absl::OkStatus();
  }
  void DropCollective() { collective_.reset(); }
  Collective& collective() { return *collective_; }

  // Runs the collective on a thread for each tower, and waits for the devices, as Executable does: it looks for
  // failures meanwhile, gives up at the deadline, and recovers from errors.
  absl::Status Run(absl::Duration limit = absl::Seconds(30)) {
    const absl::Time deadline = In(limit);
    ++run_;
    std::vector<absl::Status> statuses(count_);
    std::vector<std::thread> threads;
    for (int p = 0; p < count_; ++p) {
      threads.emplace_back([&, p] {
        statuses[p] = collective_->Run(p, *streams_[p], run_, deadline);
        if (!statuses[p].ok()) collective_->Cancel();
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const absl::Status& status : statuses) {
      if (status.ok()) continue;
      for (auto& stream : streams_) stream->Synchronize().IgnoreError();
      collective_->Reset(run_);
      return status;
    }
    for (int p = 0; p < count_; ++p) {
      const auto done = gpus_[p]->NewEvent();
      streams_[p]->Record(*done, 1);
      while (absl::IsDeadlineExceeded(done->Wait(1, std::min(deadline, In(absl::Milliseconds(20)))))) {
        RETURN_IF_ERROR(collective_->Check(/*give_up=*/SteadyNow() >= deadline));
      }
    }
    return absl::OkStatus();
  }

 private:
  World& world_;
  TowerData<T>& towers_;
  int first_ = 0, count_ = 0;
  DeviceSet devices_;
  std::vector<Device*> gpus_;
  std::vector<std::unique_ptr<Stream>> streams_;
  std::unique_ptr<NcclCollectives> all_;
  std::unique_ptr<Collective> collective_;
  uint32_t run_ = 0;
};

// NCCL in each of some processes. Expects at the end that all communicators have ended, and no misuse.
class Nccls {
 public:
  explicit Nccls(size_t processes) : all_{std::make_shared<FakeNccl>()} {
    while (all_.size() < processes) all_.push_back(all_[0]->InAnotherProcess());
  }
  ~Nccls() {
    EXPECT_THAT(all_[0]->misuse(), IsEmpty());
    EXPECT_EQ(all_[0]->live(), 0);
  }
  const std::shared_ptr<FakeNccl>& at(int process) const { return all_[process]; }

 private:
  std::vector<std::shared_ptr<FakeNccl>> all_;
};

TowerData<float> Ones(int count) {
  return {std::vector<std::vector<float>>(count, std::vector<float>(100, 1.0f)), std::vector<float>(count, 1.0f)};
}

template <class T>
class NcclWorldTest : public testing::Test {};
using NcclDTypes = testing::Types<float, double, Half, BFloat16>;
TYPED_TEST_SUITE(NcclWorldTest, NcclDTypes);

// Values are small integers, so that sums are exact; a tower without weight has NaN.
TYPED_TEST(NcclWorldTest, EveryLayoutAveragesOverAllTowers) {
  using T = TypeParam;
  std::mt19937& random = TestRandom();
  for (const Counts& layout : std::vector<Counts>{{4}, {2, 2}, {1, 1, 1, 1}, {3, 1}, {1, 3}}) {
    for (const CollectiveKind kind : {CollectiveKind::kMean, CollectiveKind::kSum, CollectiveKind::kBroadcast,
                                      CollectiveKind::kReduceScatter, CollectiveKind::kAllGather}) {
      SCOPED_TRACE(absl::StrCat("towers ", absl::StrJoin(layout, " + "), ", kind ", static_cast<int>(kind)));
      const size_t slice = 1 + random() % 250;
      TowerData<T> towers{std::vector<std::vector<T>>(4, std::vector<T>(4 * slice)), {}};
      const bool scatters = kind == CollectiveKind::kReduceScatter, gathers = kind == CollectiveKind::kAllGather;
      const bool mean = kind == CollectiveKind::kMean || scatters;
      const size_t idle = random() % 4;
      for (size_t t = 0; t < 4; ++t) {
        towers.weights.push_back(mean && t == idle ? 0.0f : static_cast<float>(1 + random() % 4));
        for (T& value : towers.data[t]) {
          value = mean && t == idle ? std::numeric_limits<T>::quiet_NaN()
                                    : static_cast<T>(static_cast<float>(random() % 17) - 8);
        }
      }
      const TowerData<T> start = towers;
      Nccls nccls(layout.size());
      const auto results =
          RunRanks(static_cast<int>(layout.size()), {.tell_failures = true}, [&](World& world) -> absl::Status {
            {
              Process<T> process(world, layout, towers, nccls.at(world.rank()));
              RETURN_IF_ERROR(process.Make(kind));
              RETURN_IF_ERROR(process.Run());
            }
            return world.Close(In(absl::Seconds(60)));
          });
      for (const absl::Status& status : results) ASSERT_TRUE(status.ok()) << status;
      for (size_t t = 0; t < 4; ++t) {
        for (size_t i = 0; i < towers.data[t].size(); ++i) {
          if (scatters && i / slice != t) continue;
          const double expected = gathers ? static_cast<double>(start.data[i / slice][i])
                                          : Expected(scatters ? CollectiveKind::kMean : kind, start.data, start.weights,
                                                     static_cast<int64_t>(i));
          ASSERT_NEAR(static_cast<double>(towers.data[t][i]), expected, sizeof(T) == 2 ? 0.06 : 1e-5)
              << "tower " << t << ", element " << i;
        }
      }
      EXPECT_EQ(nccls.at(0)->ids(), 1) << "task 0 makes it for all";
      EXPECT_EQ(nccls.at(0)->made(), 4);
      EXPECT_EQ(nccls.at(0)->aborted(), 0);
    }
  }
}

TEST(NcclWorld, CommunicatorsStayWithoutCollectives) {
  const Counts layout = {2, 1};
  TowerData<float> towers = Ones(3);
  Nccls nccls(2);
  const auto results = RunRanks(2, {.tell_failures = true}, [&](World& world) -> absl::Status {
    Process<float> process(world, layout, towers, nccls.at(world.rank()));
    RETURN_IF_ERROR(process.Make(CollectiveKind::kSum));
    RETURN_IF_ERROR(process.Run());
    if (world.rank() == 1) process.DropCollective();  // for memory, while the other process keeps its own
    if (world.rank() == 1) RETURN_IF_ERROR(process.Make(CollectiveKind::kSum));
    return process.Run();
  });
  for (const absl::Status& status : results) ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(nccls.at(0)->made(), 3);
  EXPECT_EQ(towers.data[2][0], 9);
}

TEST(NcclWorld, StepsOfSeveralProcessesAreNotCaptured) {
  TowerData<float> towers = Ones(2);
  Nccls nccls(2);
  const auto results = RunRanks(2, {.tell_failures = true}, [&](World& world) -> absl::Status {
    Process<float> process(world, {1, 1}, towers, nccls.at(world.rank()));
    RETURN_IF_ERROR(process.Make());
    return process.collective().CanCapture() ? absl::InternalError("can be captured") : absl::OkStatus();
  });
  for (const absl::Status& status : results) EXPECT_TRUE(status.ok()) << status;
}

TEST(NcclWorld, AProcessThatDoesNotComeToTheStartIsNamed) {
  TowerData<float> towers = Ones(3);
  Nccls nccls(3);
  const auto results = RunRanks(3, {}, [&](World& world) -> absl::Status {
    if (world.rank() == 2) {
      absl::SleepFor(absl::Milliseconds(500));
      return absl::OkStatus();
    }
    NcclOptions options = kPatient;
    options.meet_timeout = absl::Milliseconds(200);
    Process<float> process(world, {1, 1, 1}, towers, nccls.at(world.rank()), options);
    return process.Make();
  });
  for (const int r : {0, 1}) {
    EXPECT_EQ(results[r].code(), absl::StatusCode::kDeadlineExceeded);
    EXPECT_THAT(results[r].message(),
                AllOf(HasSubstr("to start NCCL"), HasSubstr("no answer before the deadline from task 2")));
  }
  EXPECT_EQ(nccls.at(0)->made(), 0);
}

// It came to the start, but NCCL cannot reach it.
TEST(NcclWorld, ConnectingHasALimit) {
  TowerData<float> towers = Ones(2);
  Nccls nccls(2);
  nccls.at(1)->DelayLaunches(absl::InfiniteDuration());
  const auto results = RunRanks(2, {}, [&](World& world) -> absl::Status {
    NcclOptions options = kPatient;
    options.init_timeout = absl::Milliseconds(200);
    Process<float> process(world, {1, 1}, towers, nccls.at(world.rank()), options);
    return process.Make();
  });
  EXPECT_EQ(results[1].code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(results[1].message(), AllOf(HasSubstr("connecting /job"), HasSubstr("NCCL_SOCKET_IFNAME")));
}

// Sleeps in step 2, in which the others wait on their devices.
TEST(NcclWorld, AProcessThatDoesNotComeToAStepEndsItAtTheDeadline) {
  const Counts layout = {2, 2};
  TowerData<float> towers = Ones(4);
  Nccls nccls(2);
  const auto results = RunRanks(2, {}, [&](World& world) -> absl::Status {
    Process<float> process(world, layout, towers, nccls.at(world.rank()));
    RETURN_IF_ERROR(process.Make());
    RETURN_IF_ERROR(process.Run());
    if (world.rank() == 1) {
      absl::SleepFor(absl::Milliseconds(700));
      return absl::OkStatus();
    }
    const absl::Status status = process.Run(absl::Milliseconds(200));
    const absl::Status again = process.Run();
    EXPECT_THAT(again, StatusIs(absl::StatusCode::kUnavailable,
                                AllOf(HasSubstr("not started again among several processes"),
                                      HasSubstr("last checkpoint"), HasSubstr(std::string(status.message())))));
    return status;
  });
  EXPECT_EQ(results[0].code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(results[0].message(),
              AllOf(HasSubstr("among the GPUs of 2 processes"), HasSubstr("aborted"), HasSubstr("'gradients'")));
  EXPECT_TRUE(results[1].ok());
}

// The others wait on their devices without a limit in sight.
TEST(NcclWorld, AFailureElsewhereEndsTheWait) {
  const Counts layout = {2, 1};
  TowerData<float> towers = Ones(3);
  Nccls nccls(2);
  const auto results = RunRanks(2, {.tell_failures = true}, [&](World& world) -> absl::Status {
    Process<float> process(world, layout, towers, nccls.at(world.rank()));
    RETURN_IF_ERROR(process.Make());
    RETURN_IF_ERROR(process.Run());
    if (world.rank() == 1) {
      absl::SleepFor(absl::Milliseconds(100));
      return absl::DataLossError("the disk is full");
    }
    return process.Run(absl::Minutes(10));
  });
  EXPECT_THAT(results[0].message(), AllOf(HasSubstr("task 1"), HasSubstr("the disk is full")));
}

// A tower fails before its part of the collective: its process must leave what another one was given before.
TEST(NcclWorld, ACancelLeavesTheDevice) {
  TowerData<float> towers = Ones(2);
  Nccls nccls(2);
  const auto results = RunRanks(2, {.tell_failures = true}, [&](World& world) -> absl::Status {
    Process<float> process(world, {1, 1}, towers, nccls.at(world.rank()));
    RETURN_IF_ERROR(process.Make());
    RETURN_IF_ERROR(process.Run());
    if (world.rank() == 1) {
      absl::SleepFor(absl::Milliseconds(500));
      return absl::OkStatus();
    }
    std::thread canceller([&] {
      absl::SleepFor(absl::Milliseconds(100));
      process.collective().Cancel();
    });
    EXPECT_TRUE(process.Run(absl::Minutes(10)).ok()) << "the stream is free";
    canceller.join();
    process.collective().Reset(2);
    return process.Run();
  });
  EXPECT_THAT(results[0].message(), HasSubstr("not started again"));
  EXPECT_EQ(nccls.at(0)->cut_short(), 2) << "the weight and the data";
}

TEST(NcclWorld, AnAsynchronousErrorEndsAll) {
  const Counts layout = {2, 2};
  TowerData<float> towers = Ones(4);
  Nccls nccls(2);
  std::atomic<int> ready{0};
  const auto results = RunRanks(2, {.tell_failures = true}, [&](World& world) -> absl::Status {
    Process<float> process(world, layout, towers, nccls.at(world.rank()));
    RETURN_IF_ERROR(process.Make());
    RETURN_IF_ERROR(process.Run());
    ++ready;
    while (ready < 2) absl::SleepFor(absl::Milliseconds(1));
    if (world.rank() == 1) nccls.at(1)->BreakRank(3, NcclResult::kRemoteError);
    return process.Run(absl::Minutes(10));
  });
  EXPECT_THAT(results[1].message(), AllOf(HasSubstr("tower 3 on "), HasSubstr("fake error 6")));
  EXPECT_THAT(results[0].message(), AllOf(HasSubstr("task 1"), HasSubstr("tower 3 on ")));
}

// Whichever call of NCCL fails in whichever process: an error that names it in all of them, and no hang.
TEST(NcclWorld, EveryCallMayFail) {
  const Counts layout = {2, 1};
  int failed = 0;
  for (int k = 1; k <= 60; k += k < 20 ? 1 : 5) {
    for (const int broken : {0, 1}) {
      SCOPED_TRACE(absl::StrCat("call ", k, " of process ", broken));
      TowerData<float> towers = Ones(3);
      Nccls nccls(2);
      nccls.at(broken)->FailCall(k);
      const auto results = RunRanks(2, {.tell_failures = true}, [&](World& world) -> absl::Status {
        Process<float> process(world, layout, towers, nccls.at(world.rank()));
        RETURN_IF_ERROR(process.Make());
        for (int i = 0; i < 2; ++i) RETURN_IF_ERROR(process.Run(absl::Minutes(10)));
        // Nobody leaves before the other is done, and nothing fails at the end, where it is ignored.
        RETURN_IF_ERROR(world.AllGather("", In(absl::Seconds(60))).status());
        nccls.at(world.rank())->FailCall(0);
        return absl::OkStatus();
      });
      if (results[broken].ok()) continue;  // the call was not reached
      ++failed;
      EXPECT_THAT(results[broken].message(), HasSubstr("NCCL failed to"));
      EXPECT_THAT(results[1 - broken].message(),
                  AllOf(HasSubstr(absl::StrCat("task ", broken)), HasSubstr("NCCL failed to")));
    }
  }
  EXPECT_GT(failed, 30);
}

TEST(NcclWorld, OtherTowersThanTheWorldKnowsAreRefused) {
  TowerData<float> towers = Ones(4);
  Nccls nccls(2);
  const auto results = RunRanks(2, {}, [&](World& world) -> absl::Status {
    Process<float> process(world, {2, 2}, towers, nccls.at(world.rank()));
    CollectiveSpec spec = process.Spec(CollectiveKind::kSum);
    spec.ranks.pop_back();
    spec.participants.pop_back();
    return process.all().Make(spec).status();
  });
  EXPECT_THAT(results[0].message(), HasSubstr("this process has towers 0 to 0 of 4, but should have 0 to 1 of 4"));
}

TEST(NcclWorld, TowersKeepTheirGpus) {
  TowerData<float> towers = Ones(4);
  Nccls nccls(2);
  const auto results = RunRanks(2, {}, [&](World& world) -> absl::Status {
    Process<float> process(world, {2, 2}, towers, nccls.at(world.rank()));
    RETURN_IF_ERROR(process.Make());
    CollectiveSpec spec = process.Spec(CollectiveKind::kBroadcast);
    std::swap(spec.participants[0], spec.participants[1]);
    return process.all().Make(spec).status();
  });
  EXPECT_THAT(results[1].message(), HasSubstr("tower 2 is on /job:localhost/replica:0/task:0/device:GPU:1"));
}

TEST(NcclWorld, WithoutTheWorldItServesOneProcess) {
  TowerData<float> towers = Ones(2);
  Nccls nccls(1);
  const auto results = RunRanks(2, {}, [&](World& world) -> absl::Status {
    Process<float> process(world, {1, 1}, towers, nccls.at(0));
    return NcclCollectives(nccls.at(0)).Make(process.Spec(CollectiveKind::kSum)).status();
  });
  EXPECT_THAT(results[0].message(), HasSubstr("was not given the world"));
}

// A second set of communicators on the same GPUs could deadlock with the first.
TEST(NcclWorld, CollectivesWithinAProcessAreLocal) {
  TowerData<float> towers = Ones(4);
  Nccls nccls(2);
  const auto results = RunRanks(2, {}, [&](World& world) -> absl::Status {
    Process<float> process(world, {2, 2}, towers, nccls.at(world.rank()));
    CollectiveSpec spec = process.Spec(CollectiveKind::kSum);
    spec.first = 0;
    spec.size = 2;
    return process.all().Make(spec).status();
  });
  for (const absl::Status& status : results) EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(nccls.at(0)->made(), 0);
}

}  // namespace
}  // namespace belfry
