// Sessions of several processes whose GPUs average through host memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "framework/base/status.h"
#include "framework/collective/world_collective.h"
#include "framework/graph/scope.h"
#include "framework/runtime/session.h"
#include "tests/fake_gpu/fake_gpu.h"
#include "tests/framework/collective/fake_world.h"
#include "tests/framework/runtime/collective_ops.h"

namespace belfry {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::Each;
using testing::HasSubstr;

// A process of a world, with two towers of four in two processes. Tower r has weight r + 1. Each step averages many
// values, which are r, then a few, which are 10 r, then the first average once more.
class StagedTask {
 public:
  StagedTask(World& world, absl::Duration timeout) {
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
      const auto average = [&](const std::string& group, Output weight, Output x) {
        return tower.Add("AllReduce", {weight, x}, {{"group", group}, {"rank", int64_t{r}}, {"size", int64_t{4}}});
      };
      const Output weight = feed(Shape{}, static_cast<float>(r + 1));
      const Output first = average("first", weight, feed(Shape{1000}, static_cast<float>(r)));
      const Output second = average("second", weight, feed(Shape{3}, static_cast<float>(10 * r)));
      fetches_.push_back(average("third", weight, first));
      fetches_.push_back(second);
    }
    auto session =
        Session::Create(graph_, devices_, {.timeout = timeout, .collectives = WorldCollectives(world, {{0, 2, 4}})});
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
    for (const int i : {0, 2}) EXPECT_THAT(step_->fetched(i).ToDoubles(), Each(testing::DoubleNear(2, 1e-6)));
    for (const int i : {1, 3}) EXPECT_THAT(step_->fetched(i).ToDoubles(), Each(testing::DoubleNear(20, 1e-5)));
    return absl::OkStatus();
  }
  bool replays() const { return step_->replays(); }

 private:
  const OpRegistry registry_ = CollectiveOps();
  Graph graph_{registry_};
  DeviceSet devices_ = OpenFakeGpus(2);
  std::vector<FeedSpec> feeds_;
  std::vector<Tensor> values_;
  std::vector<Output> fetches_;
  std::unique_ptr<Session> session_;
  std::unique_ptr<PreparedStep> step_;
};

// Runs `body` in both processes after a step, and returns the statuses. `zero_ended` is set once process 0 has ended.
using StagedBody = std::function<absl::Status(StagedTask& task, int rank, const std::atomic<bool>& zero_ended)>;
std::vector<absl::Status> RunStagedTasks(absl::Duration timeout, const StagedBody& body) {
  std::atomic<bool> zero_ended{false};
  return RunRanks(2, {.tell_failures = true}, [&](World& world) {
    const auto run = [&]() -> absl::Status {
      StagedTask task(world, timeout);
      RETURN_IF_ERROR(task.Prepare());
      RETURN_IF_ERROR(task.Run());
      return body(task, world.rank(), zero_ended);
    };
    absl::Status status = run();
    if (world.rank() == 0) zero_ended = true;
    return status;
  });
}

absl::Status SleepUntil(const std::atomic<bool>& end) {
  while (!end) absl::SleepFor(absl::Milliseconds(1));
  return absl::OkStatus();
}

TEST(StagedTasks, AverageWithoutCapture) {
  const auto results = RunStagedTasks(absl::Seconds(60), [](StagedTask& task, int, const auto&) {
    for (int i = 0; i < 10; ++i) RETURN_IF_ERROR(task.Run());
    for (int i = 0; i < 10; ++i) RETURN_IF_ERROR(task.Start());
    EXPECT_FALSE(task.replays());
    return task.Run();
  });
  for (const absl::Status& status : results) EXPECT_TRUE(status.ok()) << status;
}

TEST(StagedTasks, AMissingTaskMeetsTheDeadline) {
  const auto results = RunStagedTasks(absl::Seconds(1), [](StagedTask& task, int rank, const auto& zero_ended) {
    return rank == 0 ? task.Run() : SleepUntil(zero_ended);
  });
  EXPECT_EQ(results[0].code(), absl::StatusCode::kDeadlineExceeded);
  // The thread of GPU 0 waits for the other process, and that of GPU 1 for GPU 0.
  EXPECT_THAT(std::string(results[0].message()),
              AllOf(AnyOf(HasSubstr("no answer before the deadline from task 1"), HasSubstr("exceeded its deadline")),
                    HasSubstr("has been waiting for the other towers in node")));
}

TEST(StagedTasks, AFailureElsewhereEndsAStepWithoutADeadline) {
  const auto results = RunStagedTasks(absl::InfiniteDuration(), [](StagedTask& task, int rank, const auto&) {
    return rank == 0 ? task.Run() : absl::DataLossError("the disk is full");
  });
  EXPECT_THAT(std::string(results[0].message()), AllOf(HasSubstr("task 1"), HasSubstr("the disk is full")));
}

}  // namespace
}  // namespace belfry
