// Tests that the double behaves like NCCL where other tests rely on it.
#include "tests/framework/collective/fake_nccl.h"

#include <atomic>
#include <memory>
#include <thread>

#include "absl/time/clock.h"
#include "tests/fake_gpu/fake_gpu.h"
#include "tests/main/testing.h"

namespace belfry {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class FakeNcclTest : public testing::Test {
 protected:
  FakeNcclTest() {
    for (int r = 0; r < 2; ++r) {
      gpus_[r] = &devices_.device(devices_.TowerDevices()[r]);
      streams_[r] = gpus_[r]->NewStream(StreamKind::kCollective).value();
    }
  }
  void Init() {
    NcclId id;
    ASSERT_EQ(nccl_.GetUniqueId(id), NcclResult::kSuccess);
    nccl_.GroupStart();
    for (int r = 0; r < 2; ++r) nccl_.CommInitRank(comms_[r], 2, id, r, *gpus_[r], /*blocking=*/false);
    ASSERT_EQ(nccl_.GroupEnd(), NcclResult::kInProgress);
    for (int r = 0; r < 2; ++r) Await(r);
  }
  NcclResult Await(int rank) {
    NcclResult state = NcclResult::kInProgress;
    while (state == NcclResult::kInProgress) nccl_.CommGetAsyncError(*comms_[rank], state);
    return state;
  }
  NcclResult Add(int rank, int64_t elements = 1) {
    return nccl_.AllReduceSum(data_[rank], data_[rank], elements, DType::kFloat32, *comms_[rank], *streams_[rank]);
  }
  // Sums one element over both ranks, from one thread, while the streams are being captured.
  std::unique_ptr<CapturedWork> CaptureSum() {
    const auto begun = gpus_[0]->NewEvent(), joined = gpus_[1]->NewEvent();
    EXPECT_TRUE(streams_[0]->BeginCapture().ok());
    streams_[0]->Record(*begun, 1);
    EXPECT_TRUE(streams_[1]->Wait(*begun, 1, absl::InfiniteFuture()).ok());
    nccl_.GroupStart();
    for (int r = 0; r < 2; ++r) Add(r);
    EXPECT_EQ(nccl_.GroupEnd(), NcclResult::kInProgress);
    for (int r = 0; r < 2; ++r) EXPECT_EQ(Await(r), NcclResult::kSuccess);
    streams_[1]->Record(*joined, 1);
    EXPECT_TRUE(streams_[0]->Wait(*joined, 1, absl::InfiniteFuture()).ok());
    return ValueOf(streams_[0]->EndCapture());
  }
  void AbortAll() {
    for (NcclComm* comm : comms_) nccl_.CommAbort(*comm);
  }

  FakeNccl nccl_;
  DeviceSet devices_ = OpenFakeGpus(2, /*tagged=*/false);
  Device* gpus_[2];
  std::unique_ptr<Stream> streams_[2];
  NcclComm* comms_[2];
  float data_[2][2] = {{1, 10}, {2, 20}};
};

TEST_F(FakeNcclTest, AddsUpInAGroupAndEndsCleanly) {
  Init();
  nccl_.GroupStart();
  EXPECT_EQ(Add(0, 2), NcclResult::kSuccess);
  EXPECT_EQ(Add(1, 2), NcclResult::kSuccess);
  EXPECT_EQ(nccl_.GroupEnd(), NcclResult::kInProgress);
  for (int r = 0; r < 2; ++r) {
    EXPECT_EQ(Await(r), NcclResult::kSuccess);
    EXPECT_TRUE(streams_[r]->Synchronize().ok());
    EXPECT_THAT(data_[r], ElementsAre(3, 30));
  }
  for (NcclComm* comm : comms_) nccl_.CommFinalize(*comm);
  for (NcclComm* comm : comms_) EXPECT_EQ(nccl_.CommDestroy(*comm), NcclResult::kSuccess);
  EXPECT_EQ(nccl_.live(), 0);
  EXPECT_THAT(nccl_.misuse(), IsEmpty());
}

TEST_F(FakeNcclTest, RanksOfOneThreadAreMadeInAGroup) {
  EXPECT_EQ(nccl_.CommInitRank(comms_[0], 2, {}, 0, *gpus_[0], false), NcclResult::kInvalidUsage);
  EXPECT_THAT(nccl_.misuse(), ElementsAre(HasSubstr("without a group")));
}

TEST_F(FakeNcclTest, OneThreadThatServesTwoRanksNeedsAGroup) {
  Init();
  EXPECT_EQ(Add(0), NcclResult::kInProgress);
  EXPECT_EQ(Add(1), NcclResult::kInvalidUsage);
  EXPECT_THAT(nccl_.misuse(), ElementsAre(HasSubstr("one thread serves two ranks")));
  AbortAll();
}

TEST_F(FakeNcclTest, ACommunicatorAtWorkTakesNothing) {
  Init();
  nccl_.DelayLaunches(absl::InfiniteDuration());
  nccl_.GroupStart();
  Add(0);
  EXPECT_EQ(nccl_.GroupEnd(), NcclResult::kInProgress);
  EXPECT_EQ(Add(0), NcclResult::kInvalidArgument);
  AbortAll();
  EXPECT_TRUE(streams_[0]->Synchronize().ok());
  EXPECT_THAT(data_[0], ElementsAre(1, 10));
}

TEST_F(FakeNcclTest, RanksThatDoDifferentThingsAreMisuse) {
  Init();
  nccl_.GroupStart();
  Add(0, 1);
  Add(1, 2);
  nccl_.GroupEnd();
  while (nccl_.misuse().empty()) absl::SleepFor(absl::Milliseconds(1));
  EXPECT_THAT(nccl_.misuse(), ElementsAre(HasSubstr("does not do what the others do")));
  EXPECT_EQ(Await(0), NcclResult::kInternalError);
  AbortAll();
  EXPECT_EQ(nccl_.aborted(), 2);
}

TEST_F(FakeNcclTest, ARankWaitsOnItsStreamUntilItIsAborted) {
  Init();
  nccl_.GroupStart();
  Add(0);
  nccl_.GroupEnd();
  EXPECT_EQ(Await(0), NcclResult::kSuccess);
  nccl_.CommAbort(*comms_[1]);
  absl::SleepFor(absl::Milliseconds(5));
  EXPECT_EQ(nccl_.cut_short(), 0) << "the other rank's end does not wake it";
  nccl_.CommAbort(*comms_[0]);
  EXPECT_TRUE(streams_[0]->Synchronize().ok());
  EXPECT_EQ(nccl_.cut_short(), 1);
  NcclResult state;
  nccl_.CommGetAsyncError(*comms_[0], state);
  EXPECT_THAT(nccl_.misuse(), ElementsAre(HasSubstr("has ended")));
}

TEST_F(FakeNcclTest, WhatIsCapturedRunsAtEveryReplay) {
  Init();
  {
    const auto captured = CaptureSum();
    EXPECT_THAT(data_[0], ElementsAre(1, 10)) << "nothing has run";
    for (int i = 0; i < 2; ++i) EXPECT_TRUE(captured->Enqueue(*streams_[0]).ok());
    EXPECT_TRUE(streams_[0]->Synchronize().ok());
    EXPECT_THAT(data_[0], ElementsAre(6, 10));
    EXPECT_THAT(data_[1], ElementsAre(6, 20));
  }
  AbortAll();
  EXPECT_THAT(nccl_.misuse(), IsEmpty());
}

TEST_F(FakeNcclTest, ACommunicatorEndsAfterWhatIsCapturedWithIt) {
  Init();
  auto captured = CaptureSum();
  EXPECT_EQ(nccl_.CommFinalize(*comms_[0]), NcclResult::kInvalidUsage);
  EXPECT_THAT(nccl_.misuse(), ElementsAre(HasSubstr("in a capture: it waits for ever")));
  std::atomic<bool> gone{false};
  std::thread ender([&] {
    absl::SleepFor(absl::Milliseconds(20));
    gone = true;
    captured.reset();
  });
  AbortAll();
  EXPECT_TRUE(gone);
  ender.join();
}

TEST_F(FakeNcclTest, AReplayThatHangsEndsWithItsCommunicators) {
  Init();
  nccl_.HangOnDevice(true);
  auto captured = CaptureSum();
  EXPECT_TRUE(captured->Enqueue(*streams_[0]).ok());
  captured.reset();  // while it still runs
  AbortAll();
  EXPECT_TRUE(streams_[0]->Synchronize().ok());
  EXPECT_EQ(nccl_.cut_short(), 2);
  EXPECT_THAT(data_[0], ElementsAre(1, 10));
  EXPECT_THAT(nccl_.misuse(), IsEmpty());
}

TEST_F(FakeNcclTest, AGroupIsCapturedForAllRanksOrNone) {
  Init();
  ASSERT_TRUE(streams_[0]->BeginCapture().ok());
  nccl_.GroupStart();
  Add(0);
  Add(1);
  EXPECT_EQ(nccl_.GroupEnd(), NcclResult::kInvalidUsage);
  nccl_.GroupStart();
  Add(0);
  EXPECT_EQ(nccl_.GroupEnd(), NcclResult::kInvalidUsage);
  EXPECT_THAT(nccl_.misuse(), ElementsAre(HasSubstr("in part"), HasSubstr("some of its ranks only")));
  EXPECT_TRUE(streams_[0]->EndCapture().ok());
  AbortAll();
}

TEST_F(FakeNcclTest, FailsAtTheCallAskedFor) {
  Init();
  nccl_.FailCall(2, NcclResult::kSystemError);
  EXPECT_EQ(nccl_.GroupStart(), NcclResult::kSuccess);
  EXPECT_TRUE(nccl_.FailCallIsDue());
  EXPECT_EQ(Add(0), NcclResult::kSystemError);
  EXPECT_EQ(nccl_.GroupEnd(), NcclResult::kSystemError) << "nothing of the group is launched";
  AbortAll();
}

}  // namespace
}  // namespace belfry
