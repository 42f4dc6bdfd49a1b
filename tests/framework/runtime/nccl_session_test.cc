// Sessions that average with NCCL, on a test double of it: what its failures look like from above.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "framework/collective/nccl.h"
#include "framework/graph/scope.h"
#include "framework/runtime/session.h"
#include "tests/fake_gpu/fake_gpu.h"
#include "tests/framework/collective/fake_nccl.h"

namespace belfry {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr int kTowers = 3, kBuckets = 4;

OpRegistry Ops() {
  OpRegistry ops;
  ops.Add({.name = "Placeholder",
           .outputs = {{.name = "output", .type = "dtype"}},
           .types = {{"dtype", kAnyType}},
           .attrs = {{"shape", Shape(), true}},
           .shape = [](const ShapeArgs& args) -> absl::StatusOr<std::vector<Shape>> {
             return std::vector<Shape>{args.attrs.Get<Shape>("shape")};
           },
           .not_differentiable = true,
           .kind = OpKind::kPlaceholder});
  ops.Add({.name = "AllReduce",
           .inputs = {{.name = "weight", .type = "float32"}, {.name = "values", .list = true}},
           .outputs = {{.name = "results", .list = true}},
           .types = {{"T", kFloatTypes}},
           .attrs = {{"group", std::string(), true},
                     {"rank", int64_t{0}, true},
                     {"size", int64_t{1}, true},
                     {"reduction", std::string("mean")}},
           .shape = [](const ShapeArgs& args) -> absl::StatusOr<std::vector<Shape>> {
             return std::vector<Shape>(args.inputs.begin() + 1, args.inputs.end());
           },
           .not_differentiable = true,
           .stateful = true,
           .kind = OpKind::kAllReduce});
  return ops;
}

// Each tower averages four buckets with the others; tower r's weight is r + 1 and its values r.
class NcclSession : public testing::Test {
 protected:
  ~NcclSession() override {
    session_.reset();
    EXPECT_THAT(nccl_->misuse(), IsEmpty());
    EXPECT_EQ(nccl_->live(), 0);
  }

  void Open(absl::Duration timeout = absl::InfiniteDuration()) {
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
    auto session = Session::Create(graph_, devices_, {.timeout = timeout, .collectives = [this](CollectiveSpec spec) {
                                                        return all_.Make(std::move(spec));
                                                      }});
    ASSERT_TRUE(session.ok()) << session.status();
    session_ = *std::move(session);
  }
  absl::Status Run() {
    absl::StatusOr<std::vector<Tensor>> results = session_->Run(feeds_, fetches_);
    if (!results.ok()) return results.status();
    for (const Tensor& result : *results) EXPECT_THAT(result.ToDoubles(), Each(testing::DoubleNear(8.0 / 6, 1e-6)));
    return absl::OkStatus();
  }
  void ExpectToWork() {
    const absl::Status status = Run();
    EXPECT_TRUE(status.ok()) << status;
  }

  const std::shared_ptr<FakeNccl> nccl_ = std::make_shared<FakeNccl>();
  NcclCollectives all_{nccl_};
  const OpRegistry registry_ = Ops();
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
  Open();
  ExpectToWork();
  for (int k : {1, 4, 10, 17, 23}) {
    nccl_->FailCall(k, NcclResult::kUnhandledCudaError);
    const absl::Status status = Run();
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("collective 'bucket_"), HasSubstr("', tower "), HasSubstr("device:GPU:"),
                      HasSubstr("NCCL failed to"), HasSubstr("AllReduce")));
    nccl_->FailCall(0);
    ExpectToWork();
  }
}

TEST_F(NcclSession, AHangMeetsTheDeadline) {
  Open(absl::Milliseconds(300));
  ExpectToWork();
  nccl_->HangOnDevice(true);
  const absl::Status status = Run();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("restore or initialize"));
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
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("tower 1 on /job:localhost/replica:0/task:0/device:GPU:1"),
                                                   HasSubstr("the last collective given to it was 'bucket_")));
  nccl_->HangOnDevice(false);
  ExpectToWork();
}

}  // namespace
}  // namespace belfry
