// Sessions of several processes that average with NCCL, on a test double of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "framework/base/status.h"
#include "framework/collective/nccl.h"
#include "framework/graph/scope.h"
#include "framework/runtime/session.h"
#include "tests/fake_gpu/fake_gpu.h"
#include "tests/framework/collective/fake_nccl.h"
#include "tests/framework/collective/fake_world.h"
#include "tests/framework/runtime/collective_ops.h"

namespace belfry {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using testing::IsEmpty;

// A process of a world, with two towers of four in two processes. Tower r has weight r + 1 and values r.
class NcclTask {
 public:
  NcclTask(World& world, std::shared_ptr<FakeNccl> nccl, absl::Duration timeout)
      : all_(std::move(nccl), world, {{0, 2, 4}},
             {.meet_timeout = absl::Seconds(20),
              .init_timeout = absl::Seconds(20),
              .drain_timeout = absl::Milliseconds(300)}) {
    for (int i = 0; i < 2; ++i) {
      const int r = 2 * world.rank() + i;
      const Scope tower = Scope(graph_).NameScope(absl::StrCat("tower_", r)).Device(absl::StrCat("/gpu:", i));
      const auto feed = [&](const Shape& shape, float value) {
        const Output output = tower.Add("Placeholder", {}, {{"dtype", DType::kFloat32}, {"shape", shape}});
        Tensor tensor(DType::kFloat32, shape);
        for (int64_t k = 0; k < tensor.elements(); ++k) tensor.data<float>()[k] = value;
        feeds_.push_back({output, shape});
        values_.push_back(tensor);
        return output;
      };
      const Output weight = feed(Shape{}, static_cast<float>(r + 1));
      fetches_.push_back(tower.Add("AllReduce", {weight, feed(Shape{100}, static_cast<float>(r))},
                                   {{"group", std::string("gradients")}, {"rank", int64_t{r}}, {"size", int64_t{4}}}));
    }
    const SessionOptions options{.timeout = timeout,
                                 .collectives = [this](CollectiveSpec spec) { return all_.Make(std::move(spec)); }};
    auto session = Session::Create(graph_, devices_, options);
    EXPECT_TRUE(session.ok()) << session.status();
    session_ = *std::move(session);
  }
  absl::Status Prepare() {
    ASSIGN_OR_RETURN(step_, session_->Prepare(feeds_, fetches_, {}));
    return absl::OkStatus();
  }
  // Enqueues a step.
  absl::Status Start() { return step_->Run(values_); }
  absl::Status Run() {
    RETURN_IF_ERROR(Start());
    RETURN_IF_ERROR(step_->Wait());
    for (const int i : {0, 1}) EXPECT_THAT(step_->fetched(i).ToDoubles(), Each(testing::DoubleNear(20.0 / 10, 1e-6)));
    return absl::OkStatus();
  }
  bool replays() const { return step_->replays(); }

 private:
  const OpRegistry registry_ = CollectiveOps();
  Graph graph_{registry_};
  DeviceSet devices_ = OpenFakeGpus(2, /*tagged=*/false);
  NcclCollectives all_;
  std::vector<FeedSpec> feeds_;
  std::vector<Tensor> values_;
  std::vector<Output> fetches_;
  std::unique_ptr<Session> session_;
  std::unique_ptr<PreparedStep> step_;
};

// Runs `body` in both processes after a step, and returns the statuses. `zero_ended` is set once process 0 has ended.
using TaskBody = std::function<absl::Status(NcclTask& task, int rank, const std::atomic<bool>& zero_ended)>;
std::vector<absl::Status> RunTasks(absl::Duration timeout, const TaskBody& body) {
  const auto first = std::make_shared<FakeNccl>();
  const std::vector<std::shared_ptr<FakeNccl>> nccl = {first, first->InAnotherProcess()};
  std::atomic<bool> zero_ended{false};
  auto results = RunRanks(2, {.tell_failures = true}, [&](World& world) {
    const auto run = [&]() -> absl::Status {
      NcclTask task(world, nccl[world.rank()], timeout);
      RETURN_IF_ERROR(task.Prepare());
      RETURN_IF_ERROR(task.Run());
      return body(task, world.rank(), zero_ended);
    };
    absl::Status status = run();
    if (world.rank() == 0) zero_ended = true;
    return status;
  });
  EXPECT_THAT(first->misuse(), IsEmpty());
  EXPECT_EQ(first->live(), 0);
  return results;
}

absl::Status StandStillUntil(const std::atomic<bool>& end) {
  while (!end) absl::SleepFor(absl::Milliseconds(1));
  return absl::OkStatus();
}

TEST(NcclTasks, AverageWithoutCapture) {
  const auto results = RunTasks(absl::Seconds(60), [](NcclTask& task, int, const auto&) {
    for (int i = 0; i < 10; ++i) RETURN_IF_ERROR(task.Run());
    for (int i = 0; i < 10; ++i) RETURN_IF_ERROR(task.Start());
    EXPECT_FALSE(task.replays());
    return task.Run();
  });
  for (const absl::Status& status : results) EXPECT_TRUE(status.ok()) << status;
}

TEST(NcclTasks, AMissingTaskMeetsTheDeadline) {
  const auto results = RunTasks(absl::Seconds(1), [](NcclTask& task, int rank, const auto& zero_ended) {
    return rank == 0 ? task.Run() : StandStillUntil(zero_ended);
  });
  EXPECT_EQ(results[0].code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(results[0].message()),
              AllOf(HasSubstr("among the GPUs of 2 processes"), HasSubstr("restore or initialize")));
}

TEST(NcclTasks, AFailureElsewhereEndsAStepWithoutADeadline) {
  const auto results = RunTasks(absl::InfiniteDuration(), [](NcclTask& task, int rank, const auto&) {
    return rank == 0 ? task.Run() : absl::DataLossError("the disk is full");
  });
  EXPECT_THAT(std::string(results[0].message()), AllOf(HasSubstr("task 1"), HasSubstr("the disk is full")));
}

// A process that fails between two steps ends, even if the collectives of the last one wait for another process that
// stands still.
TEST(NcclTasks, AStepInProgressDoesNotKeepAFailedTask) {
  const auto results = RunTasks(absl::Seconds(1), [](NcclTask& task, int rank, const auto& zero_ended) -> absl::Status {
    if (rank == 1) return StandStillUntil(zero_ended);
    RETURN_IF_ERROR(task.Start());
    return absl::DataLossError("the disk is full");
  });
  EXPECT_EQ(results[0].code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace belfry
