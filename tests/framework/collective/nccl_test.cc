// The averager `nccl` on a test double of NCCL.
#include "framework/collective/nccl.h"

#include <deque>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "framework/base/steady_time.h"
#include "tests/fake_gpu/fake_gpu.h"
#include "tests/framework/collective/fake_nccl.h"
#include "tests/framework/collective/meeting.h"

namespace belfry {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr int kTowers = 3;
constexpr int64_t kElements = 100;
const absl::Duration kAWhile = absl::Milliseconds(30);

// Three towers with some collectives among them, which own their data. Tower r starts with r + 1 everywhere.
class NcclTest : public testing::Test {
 protected:
  ~NcclTest() override {
    for (auto& stream : streams_) stream->Synchronize().IgnoreError();
    collectives_.clear();
    all_.reset();
    EXPECT_THAT(nccl_->misuse(), IsEmpty());
    EXPECT_EQ(nccl_->live(), 0);
  }

  void SetUp() override {
    for (int tower : devices_.TowerDevices()) {
      gpus_.push_back(&devices_.device(tower));
      streams_.push_back(gpus_.back()->NewStream(StreamKind::kCollective).value());
    }
  }

  // Returns the index of the new collective.
  absl::StatusOr<int> Make(const std::string& name, CollectiveKind kind = CollectiveKind::kMean,
                           int64_t elements = kElements) {
    auto& data = data_.emplace_back(kTowers, std::vector<float>(elements));
    CollectiveSpec spec{.kind = kind, .name = name, .elements = elements, .participants = gpus_};
    for (int r = 0; r < kTowers; ++r) {
      data[r].assign(elements, static_cast<float>(r + 1));
      spec.ranks.push_back({r, data[r].data(), &weights_[r]});
    }
    absl::StatusOr<std::unique_ptr<Collective>> made = all_->Make(std::move(spec));
    if (!made.ok()) return made.status();
    collectives_.push_back(*std::move(made));
    return static_cast<int>(collectives_.size()) - 1;
  }

  // Runs each tower's collectives, in the order that `order` gives for it, on a thread per tower. Returns the towers'
  // statuses.
  std::vector<absl::Status> RunInOrder(const std::vector<std::vector<int>>& order, absl::Time deadline = kNever) {
    ++run_;
    std::vector<absl::Status> statuses(kTowers);
    std::vector<std::thread> threads;
    for (int r = 0; r < kTowers; ++r) {
      threads.emplace_back([&, r] {
        for (int c : order[r]) {
          statuses[r].Update(collectives_[c]->Run(r, *streams_[r], run_, deadline));
          if (statuses[r].ok()) continue;
          for (auto& collective : collectives_) collective->Cancel();  // as the runtime does
          return;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    return statuses;
  }
  std::vector<absl::Status> Run(absl::Time deadline = kNever) {
    std::vector<int> all(collectives_.size());
    for (size_t c = 0; c < all.size(); ++c) all[c] = static_cast<int>(c);
    return RunInOrder(std::vector<std::vector<int>>(kTowers, all), deadline);
  }
  void Synchronize() {
    for (auto& stream : streams_) ASSERT_TRUE(stream->Synchronize().ok());
  }
  // Recovers as the runtime does after a failure.
  void Recover() {
    for (auto& collective : collectives_) collective->Cancel();
    Synchronize();
    for (auto& collective : collectives_) collective->Reset(run_);
  }
  void Fill() {
    for (auto& data : data_) {
      for (int r = 0; r < kTowers; ++r) data[r].assign(kElements, static_cast<float>(r + 1));
    }
  }
  void ExpectMean() {
    for (auto& data : data_) {
      for (int r = 0; r < kTowers; ++r) ASSERT_THAT(data[r], Each(2.0f)) << "tower " << r;
    }
  }
  void ExpectToWork() {
    Fill();
    ASSERT_THAT(Run(), Each(IsOk()));
    Synchronize();
    ExpectMean();
  }

  const std::shared_ptr<FakeNccl> nccl_ = std::make_shared<FakeNccl>();
  std::unique_ptr<NcclCollectives> all_ = std::make_unique<NcclCollectives>(
      nccl_, NcclOptions{.init_timeout = absl::Seconds(20), .drain_timeout = absl::Seconds(10)});
  DeviceSet devices_ = OpenFakeGpus(kTowers, /*tagged=*/false);
  std::vector<Device*> gpus_;
  std::vector<std::unique_ptr<Stream>> streams_;
  float weights_[kTowers] = {4, 4, 4};
  std::deque<std::vector<std::vector<float>>> data_;  // by collective, by tower
  std::vector<std::unique_ptr<Collective>> collectives_;
  uint32_t run_ = 0;
};

TEST_F(NcclTest, CollectivesAmongTheSameGpusShareCommunicators) {
  for (const char* name : {"a", "b", "c"}) ASSERT_TRUE(Make(name).ok());
  EXPECT_EQ(nccl_->made(), kTowers);
  for (int i = 0; i < 20; ++i) ExpectToWork();
  EXPECT_EQ(nccl_->made(), kTowers);
  collectives_.clear();
  EXPECT_EQ(nccl_->live(), 0);
  EXPECT_EQ(nccl_->aborted(), 0);
}

// The sum needs all elements scaled.
TEST_F(NcclTest, OnlyTheSliceThatIsKeptIsDivided) {
  constexpr int64_t kSlice = 5;
  ASSERT_TRUE(Make("slices", CollectiveKind::kReduceScatter, kTowers * kSlice).ok());
  ASSERT_THAT(Run(), Each(IsOk()));
  Synchronize();
  for (int r = 0; r < kTowers; ++r) {
    for (int64_t i = 0; i < kTowers * kSlice; ++i) {
      EXPECT_EQ(data_[0][r][i], i / kSlice == r ? 2 : weights_[r] * static_cast<float>(r + 1)) << r << ", " << i;
    }
  }
}

TEST_F(NcclTest, RunsGoAheadOfTheDevice) {
  ASSERT_TRUE(Make("a", CollectiveKind::kSum).ok());
  std::atomic<bool> closed{true};
  for (auto& stream : streams_) {
    EnqueueOnFakeGpu(*stream, [&] {
      while (closed) absl::SleepFor(absl::Milliseconds(1));
      return absl::OkStatus();
    });
  }
  for (int i = 0; i < 3; ++i) ASSERT_THAT(Run(), Each(IsOk()));
  EXPECT_EQ(data_[0][0][0], 1);
  closed = false;
  Synchronize();
  for (const auto& rank : data_[0]) EXPECT_THAT(rank, Each(6.0f * 3 * 3));
}

TEST_F(NcclTest, DifferentOrdersAreAnErrorAndNoHang) {
  ASSERT_TRUE(Make("first").ok());
  ASSERT_TRUE(Make("second").ok());
  const auto statuses = RunInOrder({{0, 1}, {0, 1}, {1, 0}});
  EXPECT_THAT(statuses, testing::Contains(HasCode(absl::StatusCode::kInternal)));
  for (const absl::Status& status : statuses) {
    ASSERT_FALSE(status.ok());
    if (absl::IsInternal(status)) {
      EXPECT_THAT(status.message(), AllOf(HasSubstr("'first'"), HasSubstr("'second'"), HasSubstr("order")));
    }
  }
  Recover();
  EXPECT_EQ(nccl_->aborted(), 0) << "NCCL was not given anything yet";
  ExpectToWork();
}

TEST_F(NcclTest, ATowerThatDoesNotComeIsNamed) {
  ASSERT_TRUE(Make("gradients").ok());
  const auto statuses = RunInOrder({{0}, {}, {0}}, SteadyNow() + kAWhile);
  for (int r : {0, 2}) {
    EXPECT_EQ(statuses[r].code(), absl::StatusCode::kDeadlineExceeded);
    EXPECT_THAT(
        statuses[r].message(),
        AllOf(HasSubstr("'gradients'"), HasSubstr("missing: tower 1 on /job:localhost/replica:0/task:0/device:GPU:1")));
  }
  Recover();
  EXPECT_EQ(nccl_->aborted(), 0);
  ExpectToWork();
}

TEST_F(NcclTest, SlowLaunchesAreWaitedFor) {
  ASSERT_TRUE(Make("a").ok());
  nccl_->DelayLaunches(kAWhile);
  ExpectToWork();
}

TEST_F(NcclTest, ALaunchThatDoesNotEndMeetsTheDeadline) {
  ASSERT_TRUE(Make("gradients").ok());
  ExpectToWork();
  nccl_->DelayLaunches(absl::InfiniteDuration());
  const auto statuses = Run(SteadyNow() + kAWhile);
  for (const absl::Status& status : statuses) {
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kDeadlineExceeded,
                                 AllOf(HasSubstr("'gradients', tower "),
                                       HasSubstr(" on /job:localhost/replica:0/task:0/device:GPU:"))));
  }
  EXPECT_EQ(nccl_->aborted(), kTowers);
  nccl_->DelayLaunches(absl::ZeroDuration());
  Recover();
  ExpectToWork();
  EXPECT_EQ(nccl_->made(), 2 * kTowers);
}

TEST_F(NcclTest, AnAsynchronousErrorNamesTowerAndCollective) {
  ASSERT_TRUE(Make("gradients").ok());
  ExpectToWork();
  nccl_->BreakRank(1, NcclResult::kRemoteError);
  const auto statuses = Run();
  // Towers that had already given their part continue; nothing of it finishes before the abort.
  EXPECT_EQ(statuses[1].code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(statuses[1].message(),
              AllOf(HasSubstr("collective 'gradients', tower 1 on /job:localhost/replica:0/task:0/device:GPU:1"),
                    HasSubstr("fake error 6")));
  EXPECT_EQ(nccl_->aborted(), kTowers);
  Recover();
  ExpectToWork();
}

TEST_F(NcclTest, AnErrorAfterTheRunIsFoundByCheck) {
  ASSERT_TRUE(Make("gradients").ok());
  ASSERT_TRUE(collectives_[0]->Check(false).ok());
  nccl_->HangOnDevice(true);
  ASSERT_THAT(Run(), Each(IsOk()));
  EXPECT_TRUE(collectives_[0]->Check(false).ok());
  EXPECT_EQ(nccl_->aborted(), 0);
  nccl_->BreakRank(2, NcclResult::kSystemError);
  EXPECT_THAT(
      collectives_[0]->Check(false),
      StatusIs(absl::StatusCode::kUnavailable,
               AllOf(HasSubstr("tower 2 on /job:localhost/replica:0/task:0/device:GPU:2"), HasSubstr("'gradients'"))));
  Synchronize();
  EXPECT_EQ(nccl_->cut_short(), 2 * kTowers) << "the weights and the data";
  nccl_->HangOnDevice(false);
  ExpectToWork();
}

TEST_F(NcclTest, WhoGivesUpWaitingEndsWhatHangs) {
  ASSERT_TRUE(Make("gradients").ok());
  nccl_->HangOnDevice(true);
  ASSERT_THAT(Run(), Each(IsOk()));
  EXPECT_THAT(collectives_[0]->Check(true),
              StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("in progress and have been aborted")));
  Synchronize();
  EXPECT_EQ(nccl_->aborted(), kTowers);
  nccl_->HangOnDevice(false);
  ExpectToWork();
  EXPECT_TRUE(collectives_[0]->Check(true).ok()) << "all is done, so something else took too long";
  EXPECT_EQ(nccl_->aborted(), kTowers);
}

TEST_F(NcclTest, CancelBetweenCollectivesAbortsNothing) {
  ASSERT_TRUE(Make("a").ok());
  ExpectToWork();
  collectives_[0]->Cancel();
  EXPECT_THAT(Run(), Each(HasCode(absl::StatusCode::kCancelled)));
  Recover();
  ExpectToWork();
  EXPECT_EQ(nccl_->aborted(), 0);
}

TEST_F(NcclTest, WhatAllTowersWereGivenIsNotCutShort) {
  ASSERT_TRUE(Make("a").ok());
  EnqueueOnFakeGpu(*streams_[0], [] {
    absl::SleepFor(kAWhile);
    return absl::OkStatus();
  });
  ASSERT_THAT(Run(), Each(IsOk()));
  nccl_->FailCall(3);  // at some point in the next run
  EXPECT_THAT(Run(), testing::Contains(testing::Not(IsOk())));
  EXPECT_EQ(nccl_->aborted(), kTowers);
  EXPECT_LE(nccl_->cut_short(), 2 * (kTowers - 1)) << "some of the second run, none of the first";
  Recover();
  ExpectToWork();
}

TEST_F(NcclTest, FailsAtAnyCallAndRecovers) {
  int failures = 0;
  bool due = false;
  for (int k = 1; !due; ++k) {
    SCOPED_TRACE(absl::StrCat("call ", k));
    data_.clear();
    nccl_->FailCall(k);
    absl::StatusOr<int> made = Make("gradients");
    if (!made.ok()) {
      EXPECT_THAT(made.status().message(), HasSubstr("NCCL failed to"));
      EXPECT_EQ(nccl_->live(), 0);
      made = Make("gradients");
      ASSERT_TRUE(made.ok()) << made.status();
      ++failures;
    }
    data_.erase(data_.begin(), data_.end() - 1);
    for (int run = 0; run < 2; ++run) {
      Fill();
      const auto statuses = Run();
      bool ok = true;
      for (int r = 0; r < kTowers; ++r) {
        if (statuses[r].ok()) continue;
        ok = false;
        EXPECT_THAT(statuses[r].message(),
                    AllOf(HasSubstr("collective 'gradients', tower "), HasSubstr("NCCL failed to")));
      }
      if (ok) {
        Synchronize();
        ExpectMean();
        continue;
      }
      ++failures;
      Recover();
      ExpectToWork();
    }
    due = nccl_->FailCallIsDue();  // the call was not reached
    nccl_->FailCall(0);
    collectives_.clear();
    ASSERT_EQ(nccl_->live(), 0);
  }
  EXPECT_GT(failures, 15);
}

TEST_F(NcclTest, IfItCannotBeStartedAgainTheErrorSaysSo) {
  ASSERT_TRUE(Make("gradients").ok());
  nccl_->BreakRank(0, NcclResult::kInternalError);
  EXPECT_THAT(Run(), testing::Contains(testing::Not(IsOk())));
  Recover();
  nccl_->FailCall(1);
  const auto statuses = Run();
  for (const absl::Status& status : statuses) {
    EXPECT_THAT(status.message(), AllOf(HasSubstr("'gradients', tower 0"), HasSubstr("started again")));
  }
  Recover();
  ExpectToWork();
}

TEST_F(NcclTest, OneTowerOnEachGpuOrTheLocalAverager) {
  float x = 1;
  CollectiveSpec spec{.name = "gradients", .elements = 1, .participants = {gpus_[0]}};
  spec.ranks = {{0, &x, &x}, {0, &x, &x}};
  EXPECT_THAT(all_->Make(spec).status(), StatusIs(absl::StatusCode::kInvalidArgument,
                                                  AllOf(HasSubstr("'gradients'"), HasSubstr("use --averager=local"))));

  spec.participants = {&devices_.device(0)};
  spec.ranks = {{0, &x, &x}};
  EXPECT_THAT(all_->Make(spec).status(), StatusIs(absl::StatusCode::kInvalidArgument,
                                                  AllOf(HasSubstr("CPU:0"), HasSubstr("use --averager=local"))));

  Device* const twice[] = {gpus_[0], gpus_[0]};
  EXPECT_THAT(CheckNcclDevices(twice).message(), HasSubstr("shares its card"));
  EXPECT_EQ(nccl_->made(), 0);
}

}  // namespace
}  // namespace belfry
