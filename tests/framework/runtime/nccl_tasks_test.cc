// Sessions of several processes that average with NCCL, on a test double of it.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "framework/base/status.h"
#include "framework/collective/nccl.h"
#include "tests/framework/collective/fake_nccl.h"
#include "tests/framework/runtime/tower_task.h"

namespace belfry {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

// Each step averages values that are r in tower r.
std::vector<absl::Status> RunNcclTasks(absl::Duration timeout, const TaskBody& body) {
  const auto first = std::make_shared<FakeNccl>();
  const std::vector<std::shared_ptr<FakeNccl>> nccl = {first, first->InAnotherProcess()};
  const auto model = [](TowerTask& task, const Scope& tower, int r, Output weight) -> std::vector<TowerTask::Average> {
    const Output values = task.Feed(tower, Shape{100}, static_cast<float>(r));
    return {{AverageOf(tower, r, "gradients", weight, values), 2}};
  };
  const auto with_task = [&](World& world, const UseTask& use) {
    NcclCollectives all(nccl[world.rank()], world, {{0, 2, 4}},
                        {.meet_timeout = absl::Seconds(20),
                         .init_timeout = absl::Seconds(20),
                         .drain_timeout = absl::Milliseconds(300)});
    const auto make = [&all](CollectiveSpec spec) { return all.Make(std::move(spec)); };
    TowerTask task(world, {.timeout = timeout, .collectives = make}, /*tagged=*/false, model);
    return use(task);
  };
  auto results = RunTowerTasks(with_task, body);
  EXPECT_THAT(first->misuse(), IsEmpty());
  EXPECT_EQ(first->live(), 0);
  return results;
}

TEST(NcclTasks, AverageWithoutCapture) {
  const auto results =
      RunNcclTasks(absl::Seconds(60), [](TowerTask& task, int, const auto&) { return RunManySteps(task); });
  for (const absl::Status& status : results) EXPECT_TRUE(status.ok()) << status;
}

TEST(NcclTasks, AMissingTaskMeetsTheDeadline) {
  const auto results = RunNcclTasks(absl::Seconds(1), [](TowerTask& task, int rank, const auto& zero_ended) {
    return rank == 0 ? task.Run() : StandStillUntil(zero_ended);
  });
  EXPECT_EQ(results[0].code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(results[0].message(),
              AllOf(HasSubstr("among the GPUs of 2 processes"), HasSubstr("restore or initialize")));
}

TEST(NcclTasks, AFailureElsewhereEndsAStepWithoutADeadline) {
  const auto results = RunNcclTasks(absl::InfiniteDuration(), [](TowerTask& task, int rank, const auto&) {
    return rank == 0 ? task.Run() : absl::DataLossError("the disk is full");
  });
  EXPECT_THAT(results[0].message(), AllOf(HasSubstr("task 1"), HasSubstr("the disk is full")));
}

// A process that fails between two steps ends, even if the collectives of the last one wait for another process that
// stands still.
TEST(NcclTasks, AStepInProgressDoesNotKeepAFailedTask) {
  const auto results =
      RunNcclTasks(absl::Seconds(1), [](TowerTask& task, int rank, const auto& zero_ended) -> absl::Status {
        if (rank == 1) return StandStillUntil(zero_ended);
        RETURN_IF_ERROR(task.Start());
        return absl::DataLossError("the disk is full");
      });
  EXPECT_EQ(results[0].code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace belfry
