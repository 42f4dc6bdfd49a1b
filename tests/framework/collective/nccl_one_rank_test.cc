// NCCL with one rank, by the calls that steps make: run, recorded, replayed, aborted and built again.
#include <algorithm>
#include <memory>
#include <utility>

#include "absl/time/time.h"
#include "framework/base/steady_time.h"
#include "framework/collective/capture.h"
#include "framework/collective/nccl_clique.h"
#include "tests/fake_gpu/test_gpus.h"
#include "tests/framework/collective/test_nccl.h"
#include "tests/main/testing.h"

namespace belfry {
namespace {

constexpr int64_t kElementsOfRank = 1000;
constexpr size_t kBytes = kElementsOfRank * sizeof(float);

absl::Time Soon() { return SteadyNow() + absl::Seconds(60); }

// A sum over one rank copies `from_` to `to_`. The parameter: whether communicators block.
class NcclOneRank : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    ASSIGN_OR_SKIP(devices_, OpenTestCards(1));
    ASSIGN_OR_SKIP(const auto nccl, OpenTestNccl());
    ASSERT_OK_AND_ASSIGN(clique_, NcclClique::Create(nccl, {&gpu()}, {.blocking = GetParam()}));
    stream_ = gpu().NewStream(StreamKind::kCollective).value();
    from_ = DeviceMemory::Allocate(gpu(), kBytes).value();
    to_ = DeviceMemory::Allocate(gpu(), kBytes).value();
    host_ = DeviceMemory::AllocateHost(gpu(), kBytes).value();
  }
  Device& gpu() { return devices_.device(1); }
  float* host() const { return static_cast<float*>(host_.data()); }

  NcclResult Sum(NcclApi& api, NcclComm* comm) {
    return api.AllReduceSum(from_.data(), to_.data(), kElementsOfRank, DType::kFloat32, *comm, *stream_);
  }
  absl::Status Run() {
    NcclClique::Use use(*clique_, 0);
    absl::Status status = use.Begin(Soon());
    if (status.ok()) status = use.Group(*stream_, Soon(), [&](NcclApi& api, NcclComm* comm) { return Sum(api, comm); });
    if (status.ok()) use.Done();
    return status;
  }
  std::shared_ptr<CapturedStep> Record() {
    NcclClique::Use use(*clique_, 0);
    EXPECT_TRUE(stream_->BeginCapture().ok());
    const absl::Status status = use.Capture(Soon(), [&](NcclApi& api, int, NcclComm* comm) { return Sum(api, comm); });
    absl::StatusOr<std::unique_ptr<CapturedWork>> work = stream_->EndCapture();
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_TRUE(work.ok()) << work.status();
    if (!status.ok() || !work.ok()) return nullptr;
    auto step = std::make_shared<CapturedStep>(*std::move(work), gpu());
    clique_->Follow(step);
    use.Done();
    return step;
  }
  // Fills `from_` with `value`, enqueues `work`, and expects the value in `to_`.
  template <class Work>
  void ExpectToSum(float value, const Work& work) {
    const Device& cpu = devices_.device(0);
    std::fill_n(host(), kElementsOfRank, value);
    ASSERT_TRUE(stream_->Copy(from_.data(), gpu(), host(), cpu, kBytes).ok());
    ASSERT_TRUE(stream_->Synchronize().ok());
    ASSERT_EQ(work(), absl::OkStatus());
    std::fill_n(host(), kElementsOfRank, 0.0f);
    ASSERT_TRUE(stream_->Copy(host(), cpu, to_.data(), gpu(), kBytes).ok());
    ASSERT_TRUE(stream_->Synchronize().ok());
    EXPECT_TRUE(std::all_of(host(), host() + kElementsOfRank, [&](float x) { return x == value; })) << value;
  }
  void ExpectToReplay(CapturedStep& step) {
    for (const float value : {3.0f, 4.0f, 5.0f}) ExpectToSum(value, [&] { return step.Enqueue(*stream_); });
  }

  DeviceSet devices_;
  std::unique_ptr<Stream> stream_;
  DeviceMemory from_, to_, host_;
  std::unique_ptr<NcclClique> clique_;
};

TEST_P(NcclOneRank, RunsAndReplays) {
  ExpectToSum(1, [&] { return Run(); });
  const std::shared_ptr<CapturedStep> step = Record();
  ASSERT_NE(step, nullptr);
  ExpectToReplay(*step);
  ExpectToSum(2, [&] { return Run(); });
  ExpectToReplay(*step);
  EXPECT_EQ(clique_->aborts(), 0u);
}

TEST_P(NcclOneRank, AnAbortEndsWhatWasRecordedAndItIsBuiltAgain) {
  for (uint64_t round = 1; round <= 2; ++round) {
    const std::shared_ptr<CapturedStep> step = Record();
    ASSERT_NE(step, nullptr);
    ExpectToReplay(*step);
    { const NcclClique::Use damaged(*clique_, 0); }
    clique_->Stop(absl::InternalError("a test"));
    EXPECT_EQ(clique_->aborts(), round);
    EXPECT_TRUE(step->ended());
    EXPECT_FALSE(Run().ok());
    clique_->Resume();
    ASSERT_EQ(clique_->Prepare(Soon()), absl::OkStatus());
    ExpectToSum(7, [&] { return Run(); });
  }
}

INSTANTIATE_TEST_SUITE_P(All, NcclOneRank, testing::Bool(),
                         [](const auto& test) { return test.param ? "Blocking" : "NonBlocking"; });

}  // namespace
}  // namespace belfry
