// Sessions of two processes, each with two of four towers on fakes of GPUs.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "framework/base/status.h"
#include "framework/graph/scope.h"
#include "framework/runtime/session.h"
#include "tests/fake_gpu/fake_gpu.h"
#include "tests/framework/collective/fake_world.h"
#include "tests/framework/runtime/collective_ops.h"
#include "tests/main/testing.h"

namespace belfry {

// One of the processes. Its steps compute averages, and check them.
class TowerTask {
 public:
  struct Average {
    Output output;
    double expected;  // of each of its elements, to 5e-7 of it
  };
  // Adds the averages of tower `r`, whose weight is r + 1.
  using Model = std::function<std::vector<Average>(TowerTask& task, const Scope& tower, int r, Output weight)>;

  // `tagged`: as OpenFakeGpus.
  TowerTask(World& world, const SessionOptions& options, bool tagged, const Model& model)
      : devices_(OpenFakeGpus(2, tagged)) {
    for (int i = 0; i < 2; ++i) {
      const int r = 2 * world.rank() + i;
      const Scope tower = Scope(graph_).NameScope(absl::StrCat("tower_", r)).Device(absl::StrCat("/gpu:", i));
      const Output weight = Feed(tower, Shape{}, static_cast<float>(r + 1));
      for (const Average& average : model(*this, tower, r, weight)) {
        fetches_.push_back(average.output);
        expected_.push_back(average.expected);
      }
    }
    session_ = ValueOf(Session::Create(graph_, devices_, options));
  }

  // A tensor of one value.
  Output Feed(const Scope& tower, const Shape& shape, float value) {
    const Output output = tower.Add("Placeholder", {}, {{"dtype", DType::kFloat32}, {"shape", shape}});
    Tensor tensor(DType::kFloat32, shape);
    for (int64_t k = 0; k < tensor.elements(); ++k) tensor.data<float>()[k] = value;
    feeds_.push_back({output, shape});
    values_.push_back(tensor);
    return output;
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
    for (size_t i = 0; i < expected_.size(); ++i) {
      EXPECT_THAT(step_->fetched(static_cast<int>(i)).ToDoubles(),
                  testing::Each(testing::DoubleNear(expected_[i], 5e-7 * expected_[i])));
    }
    return absl::OkStatus();
  }
  bool replays() const { return step_->replays(); }

 private:
  const OpRegistry registry_ = CollectiveOps();
  Graph graph_{registry_};
  DeviceSet devices_;
  std::vector<FeedSpec> feeds_;
  std::vector<Tensor> values_;
  std::vector<Output> fetches_;
  std::vector<double> expected_;  // by fetch
  std::unique_ptr<Session> session_;
  std::unique_ptr<PreparedStep> step_;
};

inline Output AverageOf(const Scope& tower, int r, const std::string& group, Output weight, Output x) {
  return tower.Add("AllReduce", {weight, x}, {{"group", group}, {"rank", int64_t{r}}, {"size", int64_t{4}}});
}

// Runs `body` in both processes after a step, and returns the statuses. `with_task` makes the task of a process and
// hands it on. `zero_ended` is set once process 0 has ended.
using TaskBody = std::function<absl::Status(TowerTask& task, int rank, const std::atomic<bool>& zero_ended)>;
using UseTask = std::function<absl::Status(TowerTask& task)>;
inline std::vector<absl::Status> RunTowerTasks(
    const std::function<absl::Status(World& world, const UseTask& use)>& with_task, const TaskBody& body) {
  std::atomic<bool> zero_ended{false};
  return RunRanks(2, {.tell_failures = true}, [&](World& world) {
    absl::Status status = with_task(world, [&](TowerTask& task) -> absl::Status {
      RETURN_IF_ERROR(task.Prepare());
      RETURN_IF_ERROR(task.Run());
      return body(task, world.rank(), zero_ended);
    });
    if (world.rank() == 0) zero_ended = true;
    return status;
  });
}

inline absl::Status StandStillUntil(const std::atomic<bool>& end) {
  while (!end) absl::SleepFor(absl::Milliseconds(1));
  return absl::OkStatus();
}

// Steps one after the other, and several in flight.
inline absl::Status RunManySteps(TowerTask& task) {
  for (int i = 0; i < 10; ++i) RETURN_IF_ERROR(task.Run());
  for (int i = 0; i < 10; ++i) RETURN_IF_ERROR(task.Start());
  EXPECT_FALSE(task.replays());
  return task.Run();
}

}  // namespace belfry
