// Sessions of several processes whose GPUs average through host memory.
#include <string>
#include <vector>

#include "framework/base/status.h"
#include "framework/collective/world_collective.h"
#include "tests/framework/runtime/tower_task.h"

namespace belfry {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;

// Each step averages many values, which are r in tower r, then a few, which are 10 r, then the first average once more.
std::vector<absl::Status> RunStagedTasks(absl::Duration timeout, const TaskBody& body) {
  const auto model = [](TowerTask& task, const Scope& tower, int r, Output weight) -> std::vector<TowerTask::Average> {
    const Output many = task.Feed(tower, Shape{1000}, static_cast<float>(r));
    const Output few = task.Feed(tower, Shape{3}, static_cast<float>(10 * r));
    const Output first = AverageOf(tower, r, "first", weight, many);
    const Output second = AverageOf(tower, r, "second", weight, few);
    return {{AverageOf(tower, r, "third", weight, first), 2}, {second, 20}};
  };
  const auto with_task = [&](World& world, const UseTask& use) {
    TowerTask task(world, {.timeout = timeout, .collectives = WorldCollectives(world, {{0, 2, 4}})}, /*tagged=*/true,
                   model);
    return use(task);
  };
  return RunTowerTasks(with_task, body);
}

TEST(StagedTasks, AverageWithoutCapture) {
  const auto results =
      RunStagedTasks(absl::Seconds(60), [](TowerTask& task, int, const auto&) { return RunManySteps(task); });
  for (const absl::Status& status : results) EXPECT_TRUE(status.ok()) << status;
}

TEST(StagedTasks, AMissingTaskMeetsTheDeadline) {
  const auto results = RunStagedTasks(absl::Seconds(1), [](TowerTask& task, int rank, const auto& zero_ended) {
    return rank == 0 ? task.Run() : StandStillUntil(zero_ended);
  });
  EXPECT_EQ(results[0].code(), absl::StatusCode::kDeadlineExceeded);
  // The thread of GPU 0 waits for the other process, and that of GPU 1 for GPU 0.
  EXPECT_THAT(results[0].message(),
              AllOf(AnyOf(HasSubstr("no answer before the deadline from task 1"), HasSubstr("exceeded its deadline")),
                    HasSubstr("has been waiting for the other towers in node")));
}

TEST(StagedTasks, AFailureElsewhereEndsAStepWithoutADeadline) {
  const auto results = RunStagedTasks(absl::InfiniteDuration(), [](TowerTask& task, int rank, const auto&) {
    return rank == 0 ? task.Run() : absl::DataLossError("the disk is full");
  });
  EXPECT_THAT(results[0].message(), AllOf(HasSubstr("task 1"), HasSubstr("the disk is full")));
}

}  // namespace
}  // namespace belfry
