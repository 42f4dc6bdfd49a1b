// Agreement among the tasks (processes) of a run, and what they hand each other outside of steps.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "framework/collective/world.h"
#include "framework/compiler/plan.h"
#include "framework/graph/graph.h"
#include "framework/graph/variable.h"
#include "framework/runtime/session.h"
#include "models/towers/replicate_towers.h"

namespace belfry::trainers {

// FailedPrecondition unless all tasks have the same lines. The message shows the first line that differs, as it is in
// each of two tasks: "the tasks have different settings: 'steps=100' in task 0 (a, pid 7), 'steps=200' in task 1 ...".
// `what` is "settings". Errors: also those of World::AllGather.
absl::Status CheckSameLines(World& world, absl::string_view what, absl::Span<const std::string> lines,
                            absl::Time deadline);

// The nodes that a model function has added for a tower and that its loss depends on, in order, without what depends on
// the tower:
// "Conv2D float32 [?,24,24,64] strides=[1,1] (cifar10.cc:231)".
std::vector<std::string> ModelLines(const Graph& graph, const models::TrainTower& tower);

// The collectives that a plan runs, in order: "tower_0/gradients/bucket_0 mean float32 [384,192] [192] of 4".
std::vector<std::string> CollectiveLines(const Plan& plan);

// Reports that the tasks exchange while they train, about ten times a second: the signals that they noted, so that all
// stop after the same step, and how long they waited, which shows the slowest. They exchange it after steps that task 0
// fixes each time. Not thread-safe.
class TaskReports {
 public:
  // Noted by a task that asks all to end without a signal. No signal or result of TrainerOptions::stop equals it.
  static constexpr int kEnd = std::numeric_limits<int32_t>::min();

  TaskReports(World& world, int64_t first_step);
  // The signal that one of the tasks noted before this step; without one kEnd, if a task noted that, or 0. Call it
  // after each step, with the signal that this task noted and the time that it has spent so far in reading its input.
  // Errors: those of World::Exchange.
  absl::StatusOr<int> AfterStep(int64_t step, int noted, absl::Duration input_time, absl::Time deadline);
  // In task 0, the task that the others wait for, if they wait for more than a tenth of the time: "slowest: task 1
  // (node-b, pid 97), 12.0 ms a step, 11.2 ms of them in its input"; "" otherwise.
  const std::string& slowest() const { return slowest_; }

 private:
  struct Report {
    int32_t signal = 0;
    int32_t interval = 1;           // in steps, until the next exchange
    int64_t waited = 0, input = 0;  // in ns, since the last exchange
  };
  void FindSlowest(int64_t steps, absl::Duration time);

  World& world_;
  const int tag_;
  int64_t next_, last_;                 // steps of the next exchange, and of the last one
  absl::Time since_;                    // of the last one
  absl::Duration waited_, input_time_;  // until then
  Report answered_;
  std::vector<Report> reports_;  // by task; in tasks other than 0 only the own one
  Transfers ask_, answer_;
  std::string slowest_;
};

// With one task, the functions that compare and copy do nothing. All tasks must call them at the same point. Errors:
// also those of World::AllGather, Broadcast and Exchange. Not thread-safe.
class TaskSync {
 public:
  // `world` is null for one task. The others are borrowed. `timeout`: for which tasks wait for each other.
  TaskSync(World* world, absl::Duration timeout, Session& session, const models::TrainStep& step);

  World& world() const { return world_; }
  absl::Time Deadline() const;

  // FailedPrecondition unless all tasks have the same lines (CheckSameLines).
  absl::Status CheckSame(absl::string_view what, const std::vector<std::string>& lines) const;
  // DataLoss unless the variables of all towers, also of other tasks, are the same.
  absl::Status CheckReplicas() const;
  // Gives the whole variables, of all towers, their values in task 0.
  absl::Status CopyVariables() const;
  // The same for the moving averages of batch normalisation: unless they are synchronised, they are those of tower 0,
  // and its task evaluates only a part of the data.
  absl::Status CopyMovingAverages() const;

  // From the first step on.
  void StartReports(int64_t step) { reports_ = std::make_unique<TaskReports>(world_, step); }
  // TaskReports::AfterStep. A task that comes later than `step_timeout` would fail the next step, so that none waits
  // longer for it.
  absl::StatusOr<int> AfterStep(int64_t step, int noted, absl::Duration input_time, absl::Duration step_timeout);
  const std::string& slowest() const { return reports_->slowest(); }
  // Sets `reason` to the reason of the first task that has one.
  absl::Status AgreeOnEnd(std::optional<std::string>& reason) const;

 private:
  std::vector<Variable> FirstReplica() const;
  // Gives `variables` the values that they have in task 0, in all replicas of this task.
  absl::Status CopyFromTaskZero(absl::Span<const Variable> variables) const;

  const std::unique_ptr<World> alone_;  // if the world is null
  World& world_;
  const absl::Duration timeout_;
  Session& session_;
  const models::TrainStep& step_;
  std::unique_ptr<TaskReports> reports_;
};

}  // namespace belfry::trainers
