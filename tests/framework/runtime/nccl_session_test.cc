// Sessions that average with NCCL, on a test double of it: how its failures appear from above.
#include <atomic>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "framework/base/half.h"
#include "framework/base/status.h"
#include "framework/collective/nccl.h"
#include "framework/graph/scope.h"
#include "framework/runtime/session.h"
#include "tests/fake_gpu/fake_gpu.h"
#include "tests/framework/collective/fake_nccl.h"
#include "tests/framework/runtime/collective_ops.h"
#include "tests/main/testing.h"

namespace belfry {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr int kTowers = 3, kBuckets = 4;

// Each tower averages four buckets with the others; tower r has weight r + 1 and values r.
class NcclSession : public testing::Test {
 protected:
  ~NcclSession() override {
    session_.reset();
    EXPECT_THAT(nccl_->misuse(), IsEmpty());
    EXPECT_EQ(nccl_->live(), 0);
  }

  void Open(absl::Duration timeout = absl::InfiniteDuration(), bool replay = true) {
    for (int r = 0; r < kTowers; ++r) {
      const Scope tower = Scope(graph_).NameScope(absl::StrCat("tower_", r)).Device(absl::StrCat("/gpu:", r));
      const auto feed = [&](const Shape& shape, float value) {
        const Output output = tower.Add("Placeholder", {}, {{"dtype", DType::kFloat32}, {"shape", shape}});
        Tensor tensor(DType::kFloat32, shape);
        for (int64_t i = 0; i < tensor.elements(); ++i) tensor.data<float>()[i] = value;
        feeds_.push_back({output, tensor});
        return output;
      };
      const Output weight = feed(Shape{}, static_cast<float>(r + 1));
      for (int b = 0; b < kBuckets; ++b) {
        const Output value = feed(Shape{100}, static_cast<float>(r));
        fetches_.push_back(
            tower.Add("AllReduce", {weight, value},
                      {{"group", absl::StrCat("bucket_", b)}, {"rank", int64_t{r}}, {"size", int64_t{kTowers}}}));
      }
    }
    const SessionOptions options{.timeout = timeout,
                                 .collectives = [this](CollectiveSpec spec) { return all_.Make(std::move(spec)); },
                                 .replay = replay};
    ASSERT_OK_AND_ASSIGN(session_, Session::Create(graph_, devices_, options));
  }
  absl::Status Run() {
    absl::StatusOr<std::vector<Tensor>> results = session_->Run(feeds_, fetches_);
    if (!results.ok()) return results.status();
    for (const Tensor& result : *results) EXPECT_THAT(result.ToDoubles(), Each(testing::DoubleNear(8.0 / 6, 1e-6)));
    return absl::OkStatus();
  }
  void ExpectToWork() { EXPECT_EQ(Run(), absl::OkStatus()); }

  const std::shared_ptr<FakeNccl> nccl_ = std::make_shared<FakeNccl>();
  NcclCollectives all_{nccl_};
  const OpRegistry registry_ = CollectiveOps();
  Graph graph_{registry_};
  DeviceSet devices_ = OpenFakeGpus(kTowers, /*tagged=*/false);
  std::vector<Feed> feeds_;
  std::vector<Output> fetches_;
  std::unique_ptr<Session> session_;
};

TEST_F(NcclSession, AveragesWithOneSetOfCommunicators) {
  Open();
  for (int i = 0; i < 10; ++i) ExpectToWork();
  EXPECT_EQ(nccl_->made(), kTowers);
  EXPECT_EQ(nccl_->aborted(), 0);
}

TEST_F(NcclSession, AFailureNamesTowerDeviceAndCollective) {
  Open(absl::InfiniteDuration(), /*replay=*/false);  // a failure while a step is captured is not an error of the step
  ExpectToWork();
  for (int k : {1, 4, 10, 17, 23}) {
    nccl_->FailCall(k, NcclResult::kUnhandledCudaError);
    EXPECT_THAT(Run(), StatusIs(absl::StatusCode::kInternal,
                                AllOf(HasSubstr("collective 'bucket_"), HasSubstr("', tower "),
                                      HasSubstr("device:GPU:"), HasSubstr("NCCL failed to"), HasSubstr("AllReduce"))));
    nccl_->FailCall(0);
    ExpectToWork();
  }
}

TEST_F(NcclSession, AHangMeetsTheDeadline) {
  Open(absl::Milliseconds(300));
  ExpectToWork();
  nccl_->HangOnDevice(true);
  EXPECT_THAT(Run(), StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("restore or initialize")));
  EXPECT_EQ(nccl_->aborted(), kTowers);
  nccl_->HangOnDevice(false);
  ExpectToWork();
}

TEST_F(NcclSession, AnAsynchronousErrorIsFoundWithoutADeadline) {
  Open();
  ExpectToWork();
  nccl_->HangOnDevice(true);
  std::thread breaker([&] {
    absl::SleepFor(absl::Milliseconds(100));
    nccl_->BreakRank(1, NcclResult::kRemoteError);
  });
  const absl::Status status = Run();
  breaker.join();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kUnavailable,
                               AllOf(HasSubstr("tower 1 on /job:localhost/replica:0/task:0/device:GPU:1"),
                                     HasSubstr("the last collective issued to it was 'bucket_"))));
  nccl_->HangOnDevice(false);
  ExpectToWork();
}

// Captured and replayed steps. Like NcclSession, but with 2 to 4 towers, any dtype, and two plain all-reduces, the
// second one applied to the first one's result.
class NcclReplay : public testing::Test {
 protected:
  ~NcclReplay() override {
    steps_.clear();
    session_.reset();
    EXPECT_THAT(nccl_->misuse(), IsEmpty());
    EXPECT_EQ(nccl_->live(), 0);
  }

  void Open(int towers, bool replay, DType dtype = DType::kFloat32, absl::Duration timeout = absl::InfiniteDuration()) {
    towers_ = towers;
    dtype_ = dtype;
    devices_ = std::make_unique<DeviceSet>(OpenFakeGpus(towers, /*tagged=*/false));
    graph_ = std::make_unique<Graph>(registry_);
    for (int r = 0; r < towers; ++r) {
      const Scope tower = Scope(*graph_).NameScope(absl::StrCat("tower_", r)).Device(absl::StrCat("/gpu:", r));
      const auto feed = [&](DType type, const Shape& shape) {
        feeds_.push_back({tower.Add("Placeholder", {}, {{"dtype", type}, {"shape", shape}}), shape});
        return feeds_.back().output;
      };
      const auto reduce = [&](const std::string& name, const Output& weight, const Output& value, const char* how) {
        return tower.Add(
            "AllReduce", {weight, value},
            {{"group", name}, {"rank", int64_t{r}}, {"size", int64_t{towers}}, {"reduction", std::string(how)}});
      };
      const Output weight = feed(DType::kFloat32, Shape{});
      const Output mean = reduce("mean", weight, feed(dtype, Shape{53}), "mean");
      fetches_.push_back(mean);
      fetches_.push_back(reduce("sum", weight, mean, "sum"));
      fetches_.push_back(reduce("first", weight, feed(dtype, Shape{7}), "broadcast"));
    }
    const SessionOptions options{.timeout = timeout,
                                 .collectives = [this](CollectiveSpec spec) { return all_.Make(std::move(spec)); },
                                 .replay = replay};
    ASSERT_OK_AND_ASSIGN(session_, Session::Create(*graph_, *devices_, options));
    Prepare();
  }
  void Prepare() {
    ASSERT_OK_AND_ASSIGN(auto step, session_->Prepare(feeds_, fetches_, {}));
    steps_.push_back(std::move(step));
  }
  std::vector<Tensor> Batch(int number) const {
    std::vector<Tensor> batch;
    std::minstd_rand random(number);
    for (const FeedSpec& feed : feeds_) {
      Tensor tensor(feed.output.dtype(), feed.shape);
      const bool weight = feed.shape.rank() == 0;
      for (int64_t i = 0; i < tensor.elements(); ++i) {
        const float value =
            weight ? static_cast<float>(1 + random() % 9) : static_cast<float>(random() % 999) / 100 - 5;
        if (tensor.dtype() == DType::kFloat32) tensor.data<float>()[i] = value;
        if (tensor.dtype() == DType::kFloat16) tensor.data<Half>()[i] = static_cast<Half>(value);
        if (tensor.dtype() == DType::kBFloat16) tensor.data<BFloat16>()[i] = static_cast<BFloat16>(value);
      }
      batch.push_back(std::move(tensor));
    }
    return batch;
  }
  absl::Status Run(int number = 1, int step = 0) {
    RETURN_IF_ERROR(steps_[step]->Run(Batch(number)));
    return steps_[step]->Wait();
  }
  std::vector<std::vector<double>> Values(int step = 0) {
    std::vector<std::vector<double>> values;
    for (size_t i = 0; i < fetches_.size(); ++i)
      values.push_back(steps_[step]->fetched(static_cast<int>(i)).ToDoubles());
    return values;
  }
  void RunUntilReplayed(int step = 0) {
    for (int i = 0; i < 3; ++i) {
      ASSERT_EQ(Run(i, step), absl::OkStatus());
    }
    ASSERT_TRUE(steps_[step]->replays());
  }
  // Checks that the step gives the expected values and, after some runs, is replayed again.
  void ExpectToWork(const std::vector<std::vector<double>>& expected, int step = 0) {
    for (int i = 0; i < 5; ++i) {
      ASSERT_EQ(Run(7, step), absl::OkStatus());
      ASSERT_EQ(Values(step), expected);
    }
    EXPECT_TRUE(steps_[step]->replays());
  }

  const std::shared_ptr<FakeNccl> nccl_ = std::make_shared<FakeNccl>();
  NcclCollectives all_{nccl_, {.init_timeout = absl::Seconds(20), .drain_timeout = absl::Seconds(10)}};
  const OpRegistry registry_ = CollectiveOps();
  int towers_ = 0;
  DType dtype_ = DType::kFloat32;
  std::unique_ptr<DeviceSet> devices_;
  std::unique_ptr<Graph> graph_;
  std::vector<FeedSpec> feeds_;
  std::vector<Output> fetches_;
  std::unique_ptr<Session> session_;
  std::vector<std::unique_ptr<PreparedStep>> steps_;
};

class NcclReplays : public NcclReplay, public testing::WithParamInterface<std::tuple<int, DType>> {};

TEST_P(NcclReplays, GiveTheBitsOfPlainRuns) {
  const auto [towers, dtype] = GetParam();
  std::vector<std::vector<std::vector<double>>> plain;
  for (const bool replay : {false, true}) {
    Open(towers, replay, dtype);
    for (int i = 0; i < 8; ++i) {
      ASSERT_EQ(Run(i), absl::OkStatus());
      EXPECT_EQ(steps_[0]->replays(), replay && i >= 2);
      if (!replay) plain.push_back(Values());
      ASSERT_EQ(Values(), plain[i]) << "run " << i;
    }
    for (int i = 0; i < 8; ++i) ASSERT_TRUE(steps_[0]->Run(Batch(i)).ok()) << "and ahead of the devices";
    ASSERT_EQ(Values(), plain[7]);
    EXPECT_EQ(nccl_->aborted(), 0);
    steps_.clear();
    session_.reset();
    feeds_.clear();
    fetches_.clear();
  }
}

INSTANTIATE_TEST_SUITE_P(Towers, NcclReplays,
                         testing::Combine(testing::Values(1, 2, 4),
                                          testing::Values(DType::kFloat32, DType::kFloat16, DType::kBFloat16)));

TEST_F(NcclReplay, SlowLaunchesAreWaitedForWhileCapturing) {
  Open(2, true);
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(Run(7).ok());
  const auto expected = Values();
  nccl_->DelayLaunches(absl::Milliseconds(5));
  ExpectToWork(expected);
}

TEST_F(NcclReplay, AFailureAtAnyCallWhileCapturingLeavesThePlainPath) {
  int failures = 0;
  for (int k = 1;; k += k < 20 ? 1 : 9) {  // most calls only ask whether a launch is done
    SCOPED_TRACE(absl::StrCat("call ", k));
    Open(2, true);
    for (int i = 0; i < 2; ++i) ASSERT_TRUE(Run(7).ok());
    const auto expected = Values();
    const int made = nccl_->made();
    nccl_->FailCall(k);
    // The failure may come after the capture, in the third run itself, but not before it.
    const absl::Status third = Run(7);
    const bool captured = steps_[0]->replays();
    nccl_->FailCall(0);
    if (!captured) {
      ++failures;
      EXPECT_TRUE(third.ok()) << third << ": the plain path goes on";
      EXPECT_EQ(nccl_->made(), made + 2) << "communicators are made anew";
    }
    for (int i = 0; i < 3; ++i) {
      ASSERT_TRUE(Run(7).ok());
      ASSERT_EQ(Values(), expected);
    }
    EXPECT_EQ(steps_[0]->replays(), captured);
    steps_.clear();
    session_.reset();
    feeds_.clear();
    fetches_.clear();
    EXPECT_EQ(nccl_->live(), 0);
    if (captured) break;
  }
  EXPECT_GT(failures, 12);
}

TEST_F(NcclReplay, AFailureElsewhereWhileCapturingIsCapturedLater) {
  Open(2, true);
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(Run(7).ok());
  const auto expected = Values();
  nccl_->FailCall(5, NcclResult::kRemoteError);
  ASSERT_TRUE(Run(7).ok());
  EXPECT_FALSE(nccl_->FailCallIsDue());
  EXPECT_FALSE(steps_[0]->replays());
  nccl_->FailCall(0);
  ExpectToWork(expected);
}

TEST_F(NcclReplay, AReplayThatHangsMeetsTheDeadlineAndIsRecordedAnew) {
  Open(2, true, DType::kFloat32, absl::Milliseconds(500));
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(Run(7).ok());
  const auto expected = Values();
  for (int round = 0; round < 2; ++round) {
    ExpectToWork(expected);
    nccl_->HangOnDevice(true);
    EXPECT_THAT(Run(7), StatusIs(absl::StatusCode::kDeadlineExceeded,
                                 AllOf(HasSubstr("collectives were in progress and have been aborted"),
                                       HasSubstr("restore or initialize"))));
    EXPECT_EQ(nccl_->aborted(), 2 * (round + 1));
    nccl_->HangOnDevice(false);
    EXPECT_EQ(Run(7), absl::OkStatus());
    EXPECT_FALSE(steps_[0]->replays()) << "what was captured holds communicators that are gone";
  }
  ExpectToWork(expected);
}

TEST_F(NcclReplay, AnAsynchronousErrorDuringAReplayNamesTheTower) {
  Open(2, true);
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(Run(7).ok());
  const auto expected = Values();
  RunUntilReplayed();
  nccl_->HangOnDevice(true);
  std::thread breaker([&] {
    absl::SleepFor(absl::Milliseconds(50));
    nccl_->BreakRank(1, NcclResult::kRemoteError);
  });
  const absl::Status status = Run(7);
  breaker.join();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kUnavailable,
                               HasSubstr("tower 1 on /job:localhost/replica:0/task:0/device:GPU:1")));
  nccl_->HangOnDevice(false);
  ExpectToWork(expected);
}

TEST_F(NcclReplay, AnAbortEndsWhatOtherStepsRecordedToo) {
  Open(2, true, DType::kFloat32, absl::Milliseconds(500));
  Prepare();
  RunUntilReplayed(0);
  RunUntilReplayed(1);
  ASSERT_TRUE(Run(7, 1).ok());
  const auto expected = Values(1);
  nccl_->HangOnDevice(true);
  EXPECT_EQ(Run(7, 0).code(), absl::StatusCode::kDeadlineExceeded);
  nccl_->HangOnDevice(false);
  ExpectToWork(expected, 1);
  ExpectToWork(expected, 0);
  EXPECT_EQ(nccl_->made(), 4);
}

// One thread finds the failure while waiting; another is about to replay a capture that is ended because of it.
TEST_F(NcclReplay, StepsOfTwoThreadsSurviveFailures) {
  Open(2, true, DType::kFloat32, absl::Seconds(20));
  Prepare();
  ASSERT_TRUE(Run(7).ok());
  const auto expected = Values();
  std::atomic<bool> stop{false};
  std::atomic<int> runs{0}, failures{0};
  std::vector<std::thread> threads;
  for (int step : {0, 1}) {
    threads.emplace_back([&, step] {
      while (!stop) {
        const absl::Status status = Run(7, step);
        ++(status.ok() ? runs : failures);
        if (status.ok()) {
          EXPECT_EQ(Values(step), expected);
        }
      }
    });
  }
  for (int broken = 0; broken < 2; ++broken) {
    const int before = runs;
    while (runs < before + 12) absl::SleepFor(absl::Milliseconds(1));
    nccl_->BreakRank(broken % 2, NcclResult::kRemoteError);
  }
  const int before = runs;
  while (runs < before + 12) absl::SleepFor(absl::Milliseconds(1));
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_GE(failures, 2);
  for (int step : {0, 1}) ExpectToWork(expected, step);
}

TEST_F(NcclReplay, WhatIsNotUsableNowIsRecordedLater) {
  Open(2, true, DType::kFloat32, absl::Milliseconds(500));
  Prepare();
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(Run(7, 1).ok());
  const auto expected = Values(1);
  nccl_->HangOnDevice(true);
  EXPECT_EQ(Run(7, 0).code(), absl::StatusCode::kDeadlineExceeded);
  nccl_->HangOnDevice(false);
  ASSERT_TRUE(Run(7, 1).ok()) << "it was to be captured, and NCCL had to be started again";
  EXPECT_FALSE(steps_[1]->replays());
  ExpectToWork(expected, 1);
}

}  // namespace
}  // namespace belfry
